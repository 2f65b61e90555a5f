import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { operations } from '../src/market/operation.js'
import type { RecorderDatabase } from '../src/store/database.js'
import { benchWorld } from './backfillMarket.js'
import {
  type Bench,
  candleRequests,
  cpuSeconds,
  openBench,
  type Program,
  sleep,
  startProgram,
  stopProgram,
} from './backfillSetup.js'

type Check = readonly [what: string, measured: string, target: string, isMet: boolean]

const parts: Readonly<Record<string, (options: Options) => Promise<Check[]>>> = {
  year: benchYear,
  limits: benchLimits,
  beside: benchBeside,
  two: benchTwo,
}

interface Options {
  readonly days: number
  readonly seconds: number
}

/**
 * Backfill against the simulator: a year of three instruments killed five times, the rate at the real limits, the live
 * streams beside it, and two workers instead of one.
 */
export async function benchBackfill(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: { type: 'string', default: Object.keys(parts).join(',') },
      days: { type: 'string', default: '365' },
      seconds: { type: 'string', default: '300' },
    },
  })
  const checks: Check[] = []
  for (const name of values.only.split(',')) {
    const part = parts[name]
    if (part === undefined) throw new Error(`there is no part ${name}; there are ${Object.keys(parts).join(', ')}`)
    checks.push(...(await part({ days: Number(values.days), seconds: Number(values.seconds) })))
  }
  const table = new Table({ head: ['', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const [what, measured, target, isMet] of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  return checks.every(([, , , isMet]) => isMet) ? 0 : 1
}

const dayMs = 86_400_000
const minuteMs = 60_000
const symbols = ['BTCUSDT', 'ETHUSDT', 'XRPUSDT']
const reachDays = 30

function configOf(bench: Bench, limitFactor: number, latencyJitterMs: number, more: object = {}) {
  const perSecond = Object.fromEntries(
    operations.map((operation) => [operation, (operation.startsWith('rpi') ? 10 : 20) * limitFactor]),
  )
  return {
    exchange: {
      baseUrl: bench.simulatorUrl,
      latencyJitterMs,
      limits: { overallPerMinute: 6_000 * limitFactor, perSecond },
      ...more,
    },
    serve: { enabled: false },
  }
}

function backfillArgs(config: string, from: number, to: number, wanted: readonly string[] = symbols): string[] {
  const time = (at: number) => new Date(at).toISOString()
  return [
    ...['backfill', '--config', config, '--category', 'SPOT', '--symbol', ...wanted, '--interval', '1m'],
    ...['--from', time(from), '--to', time(to)],
  ]
}

/** Whole days before today, so that nothing of it is still to settle. */
function rangeOf(days: number): { from: number; to: number } {
  const to = Math.floor((Date.now() - dayMs / 24) / dayMs) * dayMs
  return { from: to - days * dayMs, to }
}

function leastRequests(from: number, to: number, series: number): number {
  const edge = Math.max(from, Date.now() - reachDays * dayMs)
  const recent = Math.ceil((to - edge) / minuteMs / 1000)
  const old = Math.ceil(Math.max(0, edge - from) / minuteMs / 100)
  return series * (Math.max(0, recent) + old)
}

async function benchYear({ days }: Options): Promise<Check[]> {
  const bench = await openBench({ limitFactor: 10, jitterMs: 0 })
  try {
    const { url, database } = await bench.createDatabase('year')
    const config = await bench.configure('year', configOf(bench, 10, 20))
    const { from, to } = rangeOf(days)
    const args = backfillArgs(config, from, to)
    const least = leastRequests(from, to, symbols.length)
    const startedMs = performance.now()
    const repeated: number[] = []
    for (let kill = 0; kill < 5; kill++) {
      const program = startProgram(args, url)
      // At any moment of what a fifth of the work takes.
      await sleep(4_000 + Math.random() * (least / 190 / 6) * 1_000)
      await stopProgram(program, 'SIGKILL')
      await sleep(500)
      const stored = await countCandles(database)
      const { requests } = candleRequests(await bench.report())
      // What was asked for and is not stored will be asked for again.
      repeated.push(requests - leastFor(stored))
    }
    const last = await startProgram(args, url).ended
    console.log(last.stderr.trim(), last.stdout)
    const seconds = (performance.now() - startedMs) / 1000
    const report = candleRequests(await bench.report())
    const wrong = await compare(database, from, to)
    const kills = repeated.map((total, i) => total - (repeated[i - 1] ?? 0))
    const secondMs = performance.now()
    const second = await startProgram(args, url).ended
    const secondTook = (performance.now() - secondMs) / 1000
    const after = candleRequests(await bench.report())
    const rows = symbols.length * days * 1440
    return [
      [`${rows.toLocaleString('en')} candles against the simulator's`, `${wrong} differ`, '0', wrong === 0],
      [
        'requests, the least possible',
        `${report.requests}, ${least} (${(report.requests / least).toFixed(4)})`,
        '',
        true,
      ],
      [
        'requests repeated per kill',
        kills.map((n) => Math.round(n)).join(', '),
        '<= 200 each',
        kills.every((n) => n <= 200),
      ],
      ['rejections', String(report.rejected), '0', report.rejected === 0],
      ['exit code', String(last.exitCode), '0', last.exitCode === 0],
      ['seconds, five restarts included', seconds.toFixed(0), '', true],
      [
        'second run: candle requests',
        String(after.requests - report.requests),
        '0',
        after.requests === report.requests,
      ],
      ['second run: seconds from start to end', secondTook.toFixed(1), '', second.exitCode === 0],
    ]
  } finally {
    await bench.close()
  }
}

/** How many requests the stored candles took at least, by the operation that has them. */
function leastFor(stored: { recent: number; old: number }): number {
  return stored.recent / 1000 + stored.old / 100
}

async function countCandles(database: RecorderDatabase): Promise<{ recent: number; old: number }> {
  const { rows } = await database.pool.query<{ recent: number; old: number }>(
    `select count(*) filter (where open_time >= now() - interval '${reachDays} days') as recent,
       count(*) filter (where open_time < now() - interval '${reachDays} days') as old from market.candles`,
  )
  return rows[0] ?? { recent: 0, old: 0 }
}

/** How many stored candles are missing, too many, or not what the simulator's market says they are. */
async function compare(database: RecorderDatabase, from: number, to: number): Promise<number> {
  const world = benchWorld()
  let wrong = 0
  for (const symbol of symbols) {
    const series = { category: 'SPOT', symbol, type: 'market', interval: '1m' } as const
    for (let day = from; day < to; day += dayMs) {
      const truth = world.candles(series, day, day + dayMs, Date.now()).map((row) => row.join(' '))
      const { rows } = await database.pool.query<{ text: string }>(
        `select concat_ws(' ', (extract(epoch from open_time) * 1000)::bigint, open, high, low, close, base_volume, quote_turnover) as text
         from market.candles where category = 'SPOT' and symbol = $1 and interval = '1m' and type = 'market' and is_closed
           and open_time >= $2 and open_time < $3 order by open_time`,
        [symbol, new Date(day), new Date(day + dayMs)],
      )
      wrong += Math.abs(truth.length - rows.length)
      for (const [i, row] of rows.entries()) if (row.text !== truth[i]) wrong++
    }
  }
  return wrong
}

async function benchLimits({ seconds }: Options): Promise<Check[]> {
  const jitterMs = 60
  const bench = await openBench({ limitFactor: 1, jitterMs })
  try {
    const { url } = await bench.createDatabase('limits')
    const config = await bench.configure('limits', configOf(bench, 1, jitterMs))
    const { to } = rangeOf(0)
    // Beyond the reach of candles, so that one operation is in use.
    const program = startProgram(backfillArgs(config, to - 1_500 * dayMs, to - 40 * dayMs), url)
    const pid = program.process.pid ?? 0
    await sleep(15_000)
    const before = { ...candleRequests(await bench.report()), cpu: await cpuSeconds(pid), ms: performance.now() }
    await sleep(seconds * 1000)
    const after = { ...candleRequests(await bench.report()), cpu: await cpuSeconds(pid), ms: performance.now() }
    await stopProgram(program, 'SIGKILL')
    const took = (after.ms - before.ms) / 1000
    const share = (after.requests - before.requests) / took / (20 / (1 + jitterMs / 1000))
    const cpu = (after.cpu - before.cpu) / took
    return [
      [
        `history-candles at the real limits over ${seconds} s, of the safe bound`,
        share.toFixed(4),
        '>= 0.98',
        share >= 0.98,
      ],
      ['rejections', String(after.rejected), '0', after.rejected === 0],
      ['Node, of a core', `${(cpu * 100).toFixed(1)} %`, '< 30 %', cpu < 0.3],
    ]
  } finally {
    await bench.close()
  }
}

interface LiveMetrics {
  readonly requests: number
  readonly waitSeconds: number
  readonly answerSeconds: number
  readonly history: number
}

async function benchBeside({ seconds }: Options): Promise<Check[]> {
  const jitterMs = 60
  const phaseMs = Math.max(30, seconds / 5) * 1000
  const bench = await openBench({ limitFactor: 1, jitterMs })
  let daemon: Program | undefined
  let backfill: Program | undefined
  try {
    const { url } = await bench.createDatabase('beside')
    const port = 18_000 + Math.floor(Math.random() * 1_000)
    const base = configOf(bench, 1, jitterMs)
    const config = await bench.configure('beside', {
      ...base,
      serve: { port },
      streams: {
        tickers: { schedule: '*/2 * * * * *' },
        orderBooks: { everySeconds: 1 },
        fills: { minPollSeconds: 1, maxPollSeconds: 2 },
      },
    })
    daemon = startProgram(['start', '--config', config, '--allow-overload'], url)
    await sleep(20_000)
    const phase = async () => {
      const before = await liveMetrics(port)
      await sleep(phaseMs)
      const after = await liveMetrics(port)
      const requests = after.requests - before.requests
      return {
        waitMs: ((after.waitSeconds - before.waitSeconds) / requests) * 1000,
        answerMs: ((after.answerSeconds - before.answerSeconds) / requests) * 1000,
        live: requests / (phaseMs / 1000),
        history: (after.history - before.history) / (phaseMs / 1000),
      }
    }
    const alone = await phase()
    const { to } = rangeOf(0)
    backfill = startProgram(backfillArgs(config, to - 1_500 * dayMs, to - 40 * dayMs), url)
    await sleep(10_000)
    const beside = await phase()
    const { rejected } = candleRequests(await bench.report())
    const latency = (of: typeof alone) => of.waitMs + of.answerMs
    const ratio = latency(beside) / latency(alone)
    return [
      [
        'live requests/s alone, beside a backfill',
        `${alone.live.toFixed(1)}, ${beside.live.toFixed(1)}`,
        'equal',
        Math.abs(beside.live / alone.live - 1) < 0.05,
      ],
      [
        'live wait + answer, ms, alone and beside',
        `${latency(alone).toFixed(1)}, ${latency(beside).toFixed(1)} (${ratio.toFixed(2)})`,
        'ratio < 1.15',
        ratio < 1.15,
      ],
      [
        'history-candles/s of the backfill, of the safe bound',
        (beside.history / (20 / (1 + jitterMs / 1000))).toFixed(3),
        '>= 0.95',
        beside.history / (20 / (1 + jitterMs / 1000)) >= 0.95,
      ],
      ['rejections', String(rejected), '0', rejected === 0],
    ]
  } finally {
    if (backfill !== undefined) await stopProgram(backfill)
    if (daemon !== undefined) await stopProgram(daemon)
    await bench.close()
  }
}

/** Sums over the live class and its answers, from what the daemon says of itself. */
async function liveMetrics(port: number): Promise<LiveMetrics> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const sum = (pattern: RegExp) => [...text.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0)
  return {
    requests: sum(/request_wait_seconds_count\{[^}]*class="live"[^}]*\} (\S+)/g),
    waitSeconds: sum(/request_wait_seconds_sum\{[^}]*class="live"[^}]*\} (\S+)/g),
    answerSeconds: sum(/request_duration_seconds_sum\{[^}]*operation="(?!history)[^}]*\} (\S+)/g),
    history: sum(/request_duration_seconds_count\{[^}]*operation="history-candles"[^}]*\} (\S+)/g),
  }
}

async function benchTwo({ days }: Options): Promise<Check[]> {
  // At the real limits, so that the limit decides and not this machine.
  const bench = await openBench({ limitFactor: 1, jitterMs: 0 })
  try {
    const { from, to } = rangeOf(Math.min(days, 90))
    const worker = async (address: string, egress: string) =>
      bench.configure(egress, {
        ...configOf(bench, 1, 20, { localAddress: address }),
        collector: { egress },
      })
    const configs = [await worker('127.0.0.1', 'one'), await worker('127.0.0.2', 'two')] as const
    const timed = async (work: () => Promise<void>) => {
      const startedMs = performance.now()
      await work()
      return (performance.now() - startedMs) / 1000
    }
    const alone = await bench.createDatabase('one_worker')
    const one = await timed(async () => {
      await startProgram(backfillArgs(configs[0], from, to), alone.url).ended
    })
    const { requests } = candleRequests(await bench.report())
    const least = leastRequests(from, to, symbols.length)
    const pair = await bench.createDatabase('two_workers')
    const two = await timed(async () => {
      const programs = configs.map((config) => startProgram(backfillArgs(config, from, to), pair.url))
      await Promise.all(programs.map(({ ended }) => ended))
    })
    const wrongPair = await compare(pair.database, from, to)
    const halved = await bench.createDatabase('one_killed')
    const [first, second] = configs.map((config) => startProgram(backfillArgs(config, from, to), halved.url))
    await sleep(two * 500)
    if (second !== undefined) await stopProgram(second, 'SIGKILL')
    const last = await first?.ended
    const wrongHalved = await compare(halved.database, from, to)
    const { rejected } = candleRequests(await bench.report())
    return [
      [
        'requests of one worker, the least possible',
        `${requests}, ${least} (${(requests / least).toFixed(4)})`,
        '<= 1.01',
        requests <= least * 1.01,
      ],
      [
        'two workers, of the time of one',
        `${two.toFixed(1)} s / ${one.toFixed(1)} s = ${(two / one).toFixed(3)}`,
        '<= 0.55',
        two / one <= 0.55,
      ],
      ['candles that differ after two workers', String(wrongPair), '0', wrongPair === 0],
      ['candles that differ after one was killed half-way', String(wrongHalved), '0', wrongHalved === 0],
      ['exit code of the other', String(last?.exitCode), '0', last?.exitCode === 0],
      ['rejections', String(rejected), '0', rejected === 0],
    ]
  } finally {
    await bench.close()
  }
}
