import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../src/app.js'
import { loadConfig } from '../../src/config/resolve.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { runProgram } from '../support/program.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'
import { temporaryFolder } from '../support/temporaryFolder.js'

const oddInstruments = 40
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

describe('a market in which the busiest instruments are of a kind that nobody knows', () => {
  const dataDir = temporaryFolder('market')
  let simulator: SimulatorProcess
  let testDatabase: TestDatabase
  let recorder: Recorder
  let journal: ServedResponse[]
  let planExit: number | null

  beforeAll(async () => {
    simulator = await startSimulatorProcess(['--scale', 'small', '--journal'])
    const listed = await fetch(`${simulator.url}/simulator/instruments`, {
      method: 'POST',
      body: JSON.stringify(oddOnes),
    })
    expect(await listed.text()).toBe('{}')
    testDatabase = await createTestDatabase()
    planExit = (await runProgram(['plan'], { EXCHANGE_BASE_URL: simulator.url })).exitCode
    const config = loadConfig({ env: { DATABASE_URL: testDatabase.url, EXCHANGE_BASE_URL: simulator.url } })
    config.database.dataDir = dataDir
    config.serve.enabled = false
    config.exchange.limits.perSecond.orderbook = bookRequestsPerSecond
    config.streams.orderBooks.everySeconds = bookEverySeconds
    // Fills are no part of this, but for whose are not asked for.
    config.exchange.limits.perSecond.fills = 3
    config.streams.tickers.watchSeconds = 0
    recorder = await startRecorder(config, createLogger('warn'))
    const { stats } = recorder.collector
    await vi.waitUntil(() => stats.order_books.responses >= bookResponses, { timeout: 200_000, interval: 200 })
    // They are asked once a minute, and a busy machine misses one now and then.
    await vi.waitUntil(() => stats.candles.quietTargets >= oddInstruments, { timeout: 200_000, interval: 200 })
    await recorder.stop()
    journal = await simulator.journal()
  })

  afterAll(async () => {
    await simulator.close()
    await testDatabase.drop()
  })

  const isOdd = ({ parameters }: ServedResponse) => parameters['symbol']?.startsWith('ODD') === true
  const hasBook = ({ data }: ServedResponse) => {
    const { a, b } = data as { readonly a: readonly unknown[]; readonly b: readonly unknown[] }
    return a.length + b.length > 0
  }

  test('the default configuration fits', () => expect(planExit).toBe(0))

  test('they are looked at, and their places go to those that have a changing book', () => {
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
    const { targets, quietTargets, leftOut } = recorder.collector.stats.order_books
    expect(quietTargets).toBeGreaterThan(oddInstruments / 2)
    expect(targets - quietTargets).toBeGreaterThan(bookPlaces / 2)
    expect(leftOut.limits).toBeGreaterThan(0)
  })

  test('their candles are asked for less often', () => {
    expect(recorder.collector.stats.candles.quietTargets).toBeGreaterThanOrEqual(oddInstruments)
  })

  test('nobody is late, and the tokens of a known kind are left out and counted', () => {
    for (const name of ['order_books', 'rpi_order_books', 'candles'] as const) {
      expect(recorder.collector.stats[name].lateTargets).toBe(0)
    }
    expect(recorder.collector.stats.candles.leftOut.kind).toBeGreaterThan(0)
    expect(
      journal.some(({ operation, parameters }) => operation === 'fills' && parameters['symbol'] === 'RNVDAUSDT'),
    ).toBe(false)
  })
})
