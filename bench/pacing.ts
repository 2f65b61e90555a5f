import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createExchangeClient, type ExchangeClient } from '../src/exchange/client.js'
import { ServiceClock } from '../src/exchange/serviceClock.js'
import { futuresCalls } from '../src/exchange/formats/futures.js'
import type { RequestOptions } from '../src/exchange/sender.js'
import { type Operation, operations, specifiedPerSecond } from '../src/market/operation.js'
import type { Report } from '../src/simulator/limits.js'
import { systemClock } from '../src/runtime/clock.js'
import { createLogger } from '../src/runtime/logger.js'
import { printTable } from './tools/checks.js'
import { type BenchSimulator, startSimulatorChild } from './tools/simulator.js'
import { TestRight } from '../test/support/rights.js'

const overallPerMinute = 6_000
/** Share of the safe bound that each run must use, without a single rejection. */
const target = 0.98
const warmUpMs = 3_000
/** Number of calls that wait at any time, so that there is always a next request. */
const callers = 16

interface Run {
  readonly name: string
  readonly address: string
  readonly operations: readonly Operation[]
  readonly limit: string
  /** Requests a second that no strict window at the service can reject, whatever the jitter. */
  readonly safePerSecond: number
}

interface Result {
  readonly run: Run
  readonly perSecond: number
  readonly highest: string
  readonly rejected: number
  /** Failed requests, each with its time in seconds since the start of the run. */
  readonly failures: readonly string[]
}

/**
 * Saturates the limits against a simulator that counts arrivals in strict windows behind a random latency: each
 * operation alone, and all together under the overall limit. Each run leaves from a loopback address of its own.
 */
export async function benchPacing(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      seconds: { type: 'string', default: '120' },
      jitter: { type: 'string', default: '60' },
    },
  })
  const seconds = Number(values.seconds)
  const jitterMs = Number(values.jitter)
  if (!(seconds >= 1) || !(jitterMs >= 0)) throw new Error('--seconds must be 1 or more, --jitter milliseconds')

  const simulator = await startSimulatorChild({ scale: 'tiny', latencyMs: [0, jitterMs] })
  try {
    const runs = planRuns(jitterMs)
    console.log(`${runs.length} runs of ${seconds} s side by side, latency 0-${jitterMs} ms, strict windows by arrival`)
    // The first use of fetch loads a library, which must not hold up the first measured requests.
    await simulator.report()
    const results = await Promise.all(runs.map((run) => measure(simulator, run, seconds, jitterMs)))
    print(results)
    // A busy machine makes timers late: the numbers above mean little without it.
    const { p99Ms, maxMs } = await simulator.lag()
    console.log(`event-loop lag of the simulator: p99 ${p99Ms.toFixed(1)} ms, at most ${maxMs.toFixed(1)} ms`)
    return results.every(isGood) ? 0 : 1
  } finally {
    await simulator.close()
  }
}

function planRuns(jitterMs: number): Run[] {
  const each = operations.map((operation, index) => ({
    name: operation,
    address: `127.0.0.${index + 11}`,
    operations: [operation],
    limit: `${specifiedPerSecond[operation]} / s`,
    safePerSecond: (specifiedPerSecond[operation] * 1_000) / (1_000 + jitterMs),
  }))
  const together = {
    name: 'all together',
    address: '127.0.0.10',
    operations,
    limit: `${overallPerMinute} / min`,
    safePerSecond: (overallPerMinute * 1_000) / (60_000 + jitterMs),
  }
  return [...each, together]
}

async function measure(simulator: BenchSimulator, run: Run, seconds: number, jitterMs: number): Promise<Result> {
  const stop = new AbortController()
  const failures: string[] = []
  const startedMs = performance.now()
  const client = createExchangeClient(new TestRight(), {
    clock: systemClock,
    logger: createLogger('silent'),
    baseUrl: simulator.url,
    timeoutMs: 10_000,
    maxConnections: 64,
    localAddress: run.address,
    limits: { overallPerMinute, perSecond: specifiedPerSecond },
    latencyJitterMs: jitterMs,
    retry: { attempts: 1, minDelayMs: 100, maxDelayMs: 1_000, totalMs: 10_000 },
    serviceClock: new ServiceClock(systemClock, createLogger('silent')),
    onRequest: ({ outcome }) => {
      if (outcome !== 'ok' && outcome !== 'aborted')
        failures.push(`${run.name}: ${outcome} after ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`)
    },
  })
  const repeat = async (operation: Operation) => {
    while (!stop.signal.aborted) await request(client, operation, { signal: stop.signal }).catch(() => undefined)
  }
  const calls = run.operations.flatMap((operation) => Array.from({ length: callers }, () => repeat(operation)))
  await sleep(warmUpMs)
  const before = await countAt(simulator, run)
  await sleep(seconds * 1_000)
  const after = await countAt(simulator, run)
  stop.abort()
  await Promise.all(calls)
  client.close()
  const { overall, operations: perOperation } = after.source
  const [first] = run.operations
  const highest =
    run.operations.length === 1 && first !== undefined
      ? `${perOperation[first].highestPerSecond} in 1 s`
      : `${overall.highestPerMinute} in 60 s`
  const perSecond = ((overall.requests - before.source.overall.requests) * 1_000) / (after.atMs - before.atMs)
  return { run, perSecond, highest, rejected: overall.rejected, failures }
}

async function countAt(simulator: BenchSimulator, run: Run): Promise<{ atMs: number; source: Report[string] }> {
  const report = await simulator.report()
  const atMs = performance.now()
  const source = report[run.address]
  if (source === undefined) throw new Error(`no request of ${run.name} arrived`)
  return { atMs, source }
}

function request(client: ExchangeClient, operation: Operation, options: RequestOptions): Promise<unknown> {
  const spot = { category: 'SPOT', symbol: 'BTCUSDT' } as const
  switch (operation) {
    case 'instruments':
      return client.instruments(spot, options)
    case 'rpi-symbols':
      return client.rpiSymbols(options)
    case 'tickers':
      return client.tickers(spot, options)
    case 'orderbook':
      return client.orderBook({ ...spot, limit: 50 }, options)
    case 'rpi-orderbook':
      return client.rpiOrderBook({ ...spot, limit: 50 }, options)
    case 'fills':
      return client.fills(spot, options)
    case 'candles':
      return client.candles({ ...spot, interval: '1m', limit: 100 }, options)
    case 'history-candles':
      return client.historyCandles({ ...spot, interval: '1m', limit: 100 }, options)
    case 'futures-fills-history':
      return client.pastFills({ category: 'USDT-FUTURES', symbol: 'BTCUSDT' }, options)
    case 'spot-fills-history':
      return client.pastFills(spot, options)
    default: {
      const names = Object.keys(futuresCalls) as (keyof typeof futuresCalls)[]
      const name = names.find((one) => futuresCalls[one].operation === operation)
      if (name === undefined) throw new RangeError(`nothing asks for ${operation}`)
      // Only operations whose rows are of periods look at the period.
      return client[name]({ category: 'USDT-FUTURES', symbol: 'BTCUSDT', period: '5m' }, options)
    }
  }
}

const shareOf = ({ perSecond, run }: Result) => perSecond / run.safePerSecond
const isGood = (result: Result) => shareOf(result) >= target && result.rejected === 0

function print(results: readonly Result[]): void {
  const head = ['operation', 'limit', 'safe bound /s', 'measured /s', 'share', 'highest', 'rejected', 'failed', '']
  const rows = results.map((result) => [
    result.run.name,
    result.run.limit,
    result.run.safePerSecond.toFixed(2),
    result.perSecond.toFixed(2),
    shareOf(result).toFixed(4),
    result.highest,
    result.rejected,
    result.failures.length,
    isGood(result) ? 'met' : 'MISSED',
  ])
  printTable(head, rows)
  for (const failure of results.flatMap(({ failures }) => failures)) console.log(failure)
}
