import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { bounds } from '../../src/market/bounds.js'
import { type Operation, operations } from '../../src/market/operation.js'
import { sum } from '../../src/market/values.js'
import { random } from '../../src/runtime/randomness.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import { servedTruth } from '../support/servedTruth.js'
import { storedRows } from '../support/storedRows.js'
import { startAttackedRecorder } from './attackedRecorder.js'
import { changeResponse, randomOf } from './structure.js'
import { longTurnMs, residentBytes, watchHealth } from './watch.js'

// FUZZ_RESPONSES=100000 FUZZ_SEED=7 npx vitest run test/hostile/structure.test.ts
const responses = Number(process.env['FUZZ_RESPONSES'] ?? 300)
const isFuzz = responses >= 1_000
const seed = Number(
  process.env['FUZZ_SEED'] ?? (process.env['CI'] === undefined ? Math.floor(random() * 1e6) : 361_804),
)
const quietMs = isFuzz ? 60_000 : 10_000
/** Rows of these tables are stored whatever else a response holds. Histories and candles are judged by what is stored. */
const judged = ['tickers', 'order_books', 'rpi_order_books', 'fills', 'funding_forecasts'] as const
const judgedOperations: readonly Operation[] = ['tickers', 'orderbook', 'rpi-orderbook', 'fills', 'current-fund-rate']
const config = `
collector: { egress: structure }
streams:
  instruments: { schedule: '*/2 * * * * *', categories: [SPOT, USDT-FUTURES] }
  tickers: { schedule: '* * * * * *', categories: [SPOT, USDT-FUTURES] }
  orderBooks: { everySeconds: 1, depth: 5, select: { busiest: 8, categories: [SPOT, USDT-FUTURES] } }
  rpiOrderBooks: { everySeconds: 1, depth: 5, select: { busiest: 4, categories: [SPOT, USDT-FUTURES] } }
  fills: { maxPollSeconds: 1, select: { busiest: 8, categories: [SPOT, USDT-FUTURES] } }
  candles: { select: { busiest: 8, categories: [SPOT, USDT-FUTURES] } }
  positioning: { enabled: true }
  futuresTerms: { enabled: true }
serve: { port: 0 }
`

const entryOf = (operation: Operation, url: URL, atMs: number, rows: readonly unknown[]) =>
  ({
    atMs,
    source: '',
    operation,
    parameters: Object.fromEntries(url.searchParams),
    status: 200,
    delivered: 'complete',
    data: operation === 'orderbook' || operation === 'rpi-orderbook' ? rows[0] : rows,
  }) as ServedResponse

test(
  `good rows are stored, and nothing waits, while responses have any structure (seed ${seed})`,
  async () => {
    const { service, created, recorder, close } = await startAttackedRecorder('structure', config)
    onTestFinished(close, 180_000)
    const [, pageUrl = ''] = await recorder.printed(/the page is at (http:\/\/[\d.:]+)/)
    const { pid } = recorder.process
    const quiet = watchHealth(pageUrl, pid)
    let quietBytes = 0
    for (let at = 0; at < quietMs; at += 1_000) {
      await sleep(1_000)
      quietBytes = Math.max(quietBytes, await residentBytes(pid))
    }
    const quietTurnMs = await quiet.stop()

    const next = randomOf(seed)
    const good: ServedResponse[] = []
    const spoilt: ServedResponse[] = []
    const counts = new Map<Operation, number>()
    service.attack({
      name: 'any structure',
      attack({ request, response, honest }) {
        const url = new URL(request.url ?? '/', service.url)
        const name = url.pathname.split('/').at(-1)
        const operation =
          operations.find((one) => one === name) ??
          (url.pathname.includes('/mix/') ? 'futures-fills-history' : 'spot-fills-history')
        const { body, good: kept, spoilt: lost } = changeResponse(honest, operation, next)
        const { requestTime = 0 } = JSON.parse(honest) as { requestTime?: number }
        counts.set(operation, (counts.get(operation) ?? 0) + 1)
        if (judgedOperations.includes(operation))
          response.once('finish', () => {
            if (kept.length > 0) good.push(entryOf(operation, url, requestTime, kept))
            if (lost.length > 0) spoilt.push(entryOf(operation, url, requestTime, lost))
          })
        response.end(body)
      },
    })
    const watch = watchHealth(pageUrl, pid)
    let attackedBytes = 0
    while (service.attacks < responses) {
      await sleep(1_000)
      attackedBytes = Math.max(attackedBytes, await residentBytes(pid))
      expect(recorder.process.exitCode).toBeNull()
    }
    const turnMs = await watch.stop()
    service.attack(null)
    await sleep(5_000)
    recorder.process.kill('SIGTERM')
    const { exitCode, stdout, stderr } = await recorder.finished

    const inMegabytes = (bytes: number) => `${Math.round(bytes / 1e6)} MB`
    console.log(
      `${sum([...counts.values()])} responses of ${counts.size} operations; longest turn ${turnMs.toFixed(0)} ms, quiet ${quietTurnMs.toFixed(0)} ms; ` +
        `memory ${inMegabytes(attackedBytes)}, quiet ${inMegabytes(quietBytes)}; ${[...counts].map((one) => one.join(' ')).join(', ')}`,
    )
    const lines: string[] = []
    const truth = servedTruth(good, 0)
    const doubtful = servedTruth(spoilt, 0)
    for (const table of judged) {
      const stored = await storedRows(created.database.pool, table, { isOnceEach: false })
      for (const [key, served] of truth[table]) {
        const row = stored.get(key)
        if (row === undefined) lines.push(`${table}: ${key} was served and is not stored`)
        else if (
          !doubtful[table].has(key) &&
          !served.some((one) => Object.entries(one).every(([name, value]) => row[name] === value))
        )
          lines.push(`${table}: ${key} is stored with other values: ${JSON.stringify([row, served])}`)
      }
      console.log(`${table}: ${truth[table].size} good rows, ${stored.size} stored`)
    }
    expect(lines.slice(0, 10)).toEqual([])
    expect(exitCode, stdout + stderr).toBe(0)
    // The fuzz measures the bound, on a quiet machine.
    expect(turnMs).toBeLessThan(Math.max(isFuzz ? bounds.turnMs : longTurnMs(), 5 * quietTurnMs))
    expect(attackedBytes).toBeLessThan(1.5 * quietBytes + 100_000_000)
  },
  360_000 + responses * 500,
)
