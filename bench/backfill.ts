import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { RecorderDatabase } from '../src/db/database.js'
import { operations, specifiedPerSecond } from '../src/market/operation.js'
import { dayMs, hourMs, minuteMs } from '../src/market/values.js'
import type { ListingRequest } from '../src/simulator/world/listing.js'
import { createWorld } from '../src/simulator/world/world.js'
import { runProgram, startProgram } from '../test/support/program.js'
import { observedQuirks } from '../test/support/quirks.js'
import { type Check, check, figure, printChecks, none } from './tools/checks.js'
import { type BenchDatabase, withDatabase } from './tools/database.js'
import { configFile } from './tools/recorder.js'
import { type BenchSimulator, startSimulatorChild } from './tools/simulator.js'

const symbols = ['BTCUSDT', 'ETHUSDT', 'XRPUSDT']
const limitFactor = 10
const kills = 5
/** How far back the simulated `candles` reaches for minutes. */
const reachDays = 30

/** Three spot instruments with some years of history. */
const instruments = symbols.map((symbol): ListingRequest => ({
  category: 'SPOT',
  symbol,
  launchTime: Date.UTC(2020, 0, 1),
  fillsPerHour: 600,
}))

/** Backfills a year of three instruments with ten times the limits, killed five times, and compares every candle. */
export async function benchBackfill(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { days: { type: 'string', default: '365' } },
  })
  const simulator = await startSimulatorChild({ customInstruments: instruments, limits: { factor: limitFactor } })
  try {
    return printChecks(await withDatabase((bench) => measureYear(bench, simulator, Number(values.days))))
  } finally {
    await simulator.close()
  }
}

interface Range {
  readonly from: number
  readonly to: number
}

async function measureYear(bench: BenchDatabase, simulator: BenchSimulator, days: number): Promise<Check[]> {
  // Whole days before today: all of their candles are final.
  const to = Math.floor((Date.now() - hourMs) / dayMs) * dayMs
  const range = { from: to - days * dayMs, to }
  const args = await backfillArguments(bench, simulator.url, range)
  const env = { DATABASE_URL: bench.url }
  const min = minRequests(range)
  const startedMs = performance.now()
  const repeated: number[] = []
  for (let kill = 0; kill < kills; kill++) {
    const program = startProgram(args, env)
    // At any moment of what a fifth of the work takes.
    await sleep(4_000 + Math.random() * (min / 190 / 6) * 1_000)
    program.process.kill('SIGKILL')
    await program.finished
    await sleep(500)
    // Responses that are not stored will be requested again.
    const { requests } = await countRequests(simulator)
    repeated.push(requests - (await requestsStored(bench.database)))
  }
  const last = await runProgram(args, env)
  console.log(last.stderr.trim(), last.stdout)
  const seconds = (performance.now() - startedMs) / 1000
  const { requests, rejected } = await countRequests(simulator)
  const differing = await countDiffering(bench.database, range)
  const secondMs = performance.now()
  const second = await runProgram(args, env)
  const secondSeconds = (performance.now() - secondMs) / 1000
  const after = await countRequests(simulator)
  const repeatedByKill = repeated.map((total, i) => Math.round(total - (repeated[i - 1] ?? 0)))
  const rows = symbols.length * days * 1440
  return [
    check(`${rows.toLocaleString('en')} candles against the simulator's`, `${differing} differ`, '0', differing === 0),
    figure('requests, the least possible', `${requests}, ${min} (${(requests / min).toFixed(4)})`),
    check(
      'requests repeated per kill',
      repeatedByKill.join(', '),
      '≤ 200 each',
      repeatedByKill.every((n) => n <= 200),
    ),
    none('rejections', rejected),
    check('exit code', String(last.exitCode), '0', last.exitCode === 0),
    figure('seconds, five restarts included', seconds.toFixed(0)),
    none('second run: candle requests', after.requests - requests),
    check(
      'second run: seconds from start to end',
      secondSeconds.toFixed(1),
      '≤ 2',
      second.exitCode === 0 && secondSeconds <= 2,
    ),
  ]
}

async function backfillArguments(bench: BenchDatabase, baseUrl: string, { from, to }: Range): Promise<string[]> {
  const perSecond = Object.fromEntries(operations.map((name) => [name, specifiedPerSecond[name] * limitFactor]))
  const config = await configFile(bench.folder, 'year', {
    exchange: { baseUrl, limits: { overallPerMinute: 6_000 * limitFactor, perSecond } },
    serve: { enabled: false },
  })
  const range = ['--from', new Date(from).toISOString(), '--to', new Date(to).toISOString()]
  return ['backfill', '--config', config, '--category', 'SPOT', '--symbol', ...symbols, '--interval', '1m', ...range]
}

function minRequests({ from, to }: Range): number {
  const edge = Math.max(from, Date.now() - reachDays * dayMs)
  const recent = Math.ceil((to - edge) / minuteMs / 1000)
  const old = Math.ceil(Math.max(0, edge - from) / minuteMs / 100)
  return symbols.length * (Math.max(0, recent) + old)
}

async function countRequests(simulator: BenchSimulator): Promise<{ requests: number; rejected: number }> {
  let [requests, rejected] = [0, 0]
  for (const { operations: byOperation, overall } of Object.values(await simulator.report())) {
    requests += byOperation.candles.requests + byOperation['history-candles'].requests
    rejected += overall.rejected
  }
  return { requests, rejected }
}

/** The least number of requests for the candles that are stored. */
async function requestsStored({ pool }: RecorderDatabase): Promise<number> {
  const { rows } = await pool.query<{ requests: number }>(
    `select (count(*) filter (where open_time >= now() - interval '${reachDays} days') / 1000.0
       + count(*) filter (where open_time < now() - interval '${reachDays} days') / 100.0)::float8 as requests
     from market.candles`,
  )
  return rows[0]?.requests ?? 0
}

/** Counts stored candles that are missing, too many, or not as the simulator's market has them. */
async function countDiffering({ pool }: RecorderDatabase, { from, to }: Range): Promise<number> {
  const world = createWorld({
    seed: 1,
    scale: 'small',
    activity: {},
    customInstruments: instruments,
    quirks: () => observedQuirks,
  })
  let differing = 0
  for (const symbol of symbols) {
    const series = { category: 'SPOT', symbol, type: 'market', interval: '1m' } as const
    for (let day = from; day < to; day += dayMs) {
      const truth = world.candles(series, day, day + dayMs, Date.now()).map((row) => row.join(' '))
      const { rows } = await pool.query<{ text: string }>(
        `select concat_ws(' ', (extract(epoch from open_time) * 1000)::bigint, open, high, low, close, base_volume, quote_turnover) as text
         from market.candles where category = 'SPOT' and symbol = $1 and interval = '1m' and type = 'market' and is_closed
           and open_time >= $2 and open_time < $3 order by open_time`,
        [symbol, new Date(day), new Date(day + dayMs)],
      )
      differing += Math.abs(truth.length - rows.length)
      for (const [i, row] of rows.entries()) if (row.text !== truth[i]) differing++
    }
  }
  return differing
}
