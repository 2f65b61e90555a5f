import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startRecorder } from '../../src/app.js'
import { loadConfig } from '../../src/config/resolve.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import { createTestDatabase } from '../support/database.js'
import { runProgram } from '../support/program.js'
import { startSimulatorProcess } from '../support/simulatorProcess.js'
import { temporaryFolder } from '../support/temporaryFolder.js'

const oddInstruments = 40
const root = temporaryFolder('market')
/** So few that not everybody gets a place: twice as many as by default, of books that are asked for twice as often. */
const bookRequestsPerSecond = 8
const bookEverySeconds = 5
/** After so many it is known what the odd ones are: by then each of the others could have been asked for five times. */
const bookResponses = 380
const bookPlaces = 32

/**
 * A kind that no field sets apart: its tickers claim more turnover than any other, rising all day, with a best bid and ask, and
 * nothing of it is there.
 */
const oddOnes = Array.from({ length: oddInstruments }, (_, i) => ({
  category: 'SPOT',
  symbol: `ODD${i}USDT`,
  fillsPerHour: 0,
  hasRpi: false,
  outsideTape: { turnoverPerDay: 20e9, hours: 'always' },
  candles: i % 2 === 0 ? 'none' : 'traded',
  book: i % 4 === 0 ? 'still' : 'empty',
}))

test('the places of the busiest instruments, of a kind that nobody knows, go to those that have a changing book', async () => {
  const simulator = await startSimulatorProcess(['--scale', 'small', '--journal'])
  onTestFinished(() => simulator.close())
  const listed = await fetch(`${simulator.url}/simulator/instruments`, {
    method: 'POST',
    body: JSON.stringify(oddOnes),
  })
  expect(await listed.text()).toBe('{}')
  const testDatabase = await createTestDatabase()
  onTestFinished(() => testDatabase.drop())
  expect((await runProgram(['plan'], { EXCHANGE_BASE_URL: simulator.url })).exitCode).toBe(0)
  const config = loadConfig({ env: { DATABASE_URL: testDatabase.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = await mkdtemp(join(root, 'data-'))
  config.serve.enabled = false
  config.exchange.limits.perSecond.orderbook = bookRequestsPerSecond
  config.streams.orderBooks.everySeconds = bookEverySeconds
  // Fills are no part of this, but for whose are not asked for.
  config.exchange.limits.perSecond.fills = 3
  config.streams.tickers.watchSeconds = 0
  const { collector, stop } = await startRecorder(config, createLogger('warn'))
  const { stats } = collector
  try {
    await vi.waitUntil(() => stats.order_books.responses >= bookResponses, { timeout: 600_000, interval: 200 })
    // Their candles are asked for less often. They are asked once a minute, and a busy machine misses one now and then.
    await vi.waitUntil(() => stats.candles.quietTargets >= oddInstruments, { timeout: 600_000, interval: 200 })
  } finally {
    await stop()
  }
  const journal = await simulator.journal()

  const books = journal.filter(({ operation }) => operation === 'orderbook')
  const odd = books.filter(isOdd)
  // A busy machine may not come to all of them.
  expect(new Set(odd.map(({ parameters }) => parameters['symbol'])).size).toBeGreaterThan(oddInstruments / 2)
  // In the second half all of them are known for what they are.
  const later = books.slice(Math.floor(books.length / 2))
  expect(later.filter((answer) => isOdd(answer) && !hasBook(answer)).length / later.length).toBeLessThanOrEqual(0.06)
  expect(
    new Set(later.filter((answer) => !isOdd(answer)).map(({ parameters }) => parameters['symbol'])).size,
  ).toBeGreaterThan(bookPlaces / 2)
  const { targets, quietTargets, leftOut } = stats.order_books
  expect(quietTargets).toBeGreaterThan(oddInstruments / 2)
  expect(targets - quietTargets).toBeGreaterThan(bookPlaces / 2)
  expect(leftOut.limits).toBeGreaterThan(0)

  // The tokens of a known kind are left out and counted.
  expect(stats.candles.leftOut.kind).toBeGreaterThan(0)
  expect(
    journal.some(({ operation, parameters }) => operation === 'fills' && parameters['symbol'] === 'RNVDAUSDT'),
  ).toBe(false)
}, 1_800_000)

const isOdd = ({ parameters }: ServedResponse) => parameters['symbol']?.startsWith('ODD') === true
const hasBook = ({ data }: ServedResponse) => {
  const { a, b } = data as { readonly a: readonly unknown[]; readonly b: readonly unknown[] }
  return a.length + b.length > 0
}
