import { parseArgs } from 'node:util'
import { countUntil, type FillMarket, maxWithin, syntheticMarket } from './fills/market.js'
import { knowingPresent, recorder } from './fills/pollers.js'
import { type FillPoller, type RunResult, runPoller, type Truth, usualWatchMs } from './fills/run.js'
import { scenarios, tapeMarket } from './fills/scenarios.js'
import { readTapes, splitTapes } from './fills/tapes.js'
import { atLeast, atMost, type Check, printChecks, printTable } from './tools/checks.js'

/** Number of instruments that always fail, and the share of the others' fills that they may cost. */
const [failingBeside, maxFailingCost] = [300, 0.02]
const pollers: Readonly<Record<string, (truth: Truth) => FillPoller>> = {
  'this recorder': (truth) => recorder(truth),
  'beside those that fail': (truth) => recorder(truth, failingBeside),
  'knowing the present': knowingPresent,
}
const ours = 'this recorder'
const beside = 'beside those that fail'
/** The recorder is judged by its own choice without any error. */
const present = 'knowing the present'
/** By when every instrument must have had a response. */
const firstWithinMs = 60_000

/** With the history: the share of fills that are stored, and the time until a fill is stored. */
const wanted = { whole: 0.9999, medianS: 30, p99S: 900 }

/** The schedule has reached this on the simulator's market, and must not get worse. */
const minSimulated = 0.9

const columns = [
  'market',
  'poller',
  'captured %',
  'of the present',
  'gaps',
  'requests/s',
  'looks/s',
  'staleness s',
  'p95 s',
  'first s',
  'repaired %',
  'history/s',
  'stored after s',
  'p99 s',
]

interface Cell {
  readonly name: string
  readonly limit: number
  /** Least share that must be captured, of what a schedule captures that knows the present. */
  readonly minShare: number
  market(window: number): FillMarket
}

/**
 * Measures how many fills of 200 instruments are captured within 18 requests a second (or 9), by the recorder's schedule
 * and by others. Requests go through the recorder's pacer, on a clock of its own. Markets are the simulator's and, with
 * `--tapes`, made of recorded trades.
 */
export async function benchFills(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      minutes: { type: 'string', default: '10' },
      windows: { type: 'string', default: '12' },
      tapes: { type: 'string' },
      part: { type: 'string', default: 'report' },
      only: { type: 'string' },
      watch: { type: 'string', default: String(usualWatchMs / 1_000) },
      seed: { type: 'string', default: '1' },
    },
  })
  const durationMs = Number(values.minutes) * 60_000
  const windows = Number(values.windows)
  const watchMs = Number(values.watch) * 1_000
  if (!(watchMs === 0 || watchMs >= 100))
    throw new Error('--watch must be 0, or 0.1 or more: seconds between two looks at tickers')
  if (!(durationMs >= 60_000) || !(windows >= 1)) throw new Error('--minutes and --windows must be 1 or more')
  const simulated: Cell = {
    name: 'simulator',
    limit: 20,
    minShare: minSimulated,
    market: (window) => syntheticMarket(durationMs, Number(values.seed) + window - 1),
  }
  const cells: Cell[] = [
    simulated,
    ...(values.tapes === undefined ? [] : tapeCells(values.tapes, values.part, durationMs)),
  ]
  const rows: string[][] = []
  const checks: Check[] = []
  for (const cell of cells.filter(({ name }) => values.only === undefined || name === values.only)) {
    const results = await runCell(cell, windows, watchMs)
    for (const [name, runs] of results) rows.push(rowOf(cell.name, name, runs, results))
    checks.push(...judge(cell, results, watchMs))
  }
  printTable(columns, rows)
  return printChecks(checks)
}

function tapeCells(folder: string, part: string, durationMs: number): Cell[] {
  if (part !== 'tune' && part !== 'report' && part !== 'all') throw new Error('--part must be tune, report or all')
  const tapes = splitTapes(readTapes(folder), part)
  console.log(`tapes (${part}): ${tapes.map(({ name }) => name).join(', ')}`)
  return scenarios.map((scenario) => ({
    name: scenario.name,
    limit: scenario.limit,
    minShare: scenario.minShare,
    market: (window) => tapeMarket(tapes, scenario, window, durationMs),
  }))
}

async function runCell(cell: Cell, windows: number, watchMs: number): Promise<Map<string, RunResult[]>> {
  const results = new Map<string, RunResult[]>(Object.keys(pollers).map((name) => [name, []]))
  for (let window = 1; window <= windows; window++) {
    const market = cell.market(window)
    describe(market)
    for (const [name, create] of Object.entries(pollers))
      results.get(name)?.push(await runPoller(market, cell.limit, create, watchMs))
  }
  return results
}

function describe({ name, flows, durationMs }: FillMarket): void {
  const total = flows.reduce((sum, { times }) => sum + countUntil(times, durationMs) - countUntil(times, 0), 0)
  const most = Math.max(...flows.map(({ times }) => maxWithin(times, 55)))
  console.log(
    `${name}: ${flows.length} instruments, ${((total / durationMs) * 1000).toFixed(0)} fills a second, ` +
      `most of one instrument within 55 ms: ${most}`,
  )
}

function rowOf(
  cell: string,
  name: string,
  runs: readonly RunResult[],
  results: ReadonlyMap<string, readonly RunResult[]>,
) {
  const shareOf = (other: string) => (share(runs) / share(results.get(other) ?? [])).toFixed(3)
  const mean = (value: (run: RunResult) => number) => runs.reduce((sum, run) => sum + value(run), 0) / runs.length
  const most = (value: (run: RunResult) => number) => Math.max(...runs.map(value))
  return [
    cell,
    name,
    (share(runs) * 100).toFixed(1),
    shareOf(present),
    mean(({ gaps }) => gaps).toFixed(0),
    mean(({ perSecond }) => perSecond).toFixed(1),
    mean(({ looksPerSecond }) => looksPerSecond).toFixed(1),
    (mean(({ staleness }) => staleness.medianMs) / 1000).toFixed(1),
    (mean(({ staleness }) => staleness.p95Ms) / 1000).toFixed(1),
    (most(({ firstMs }) => firstMs) / 1000).toFixed(1),
    (share(runs, 'whole') * 100).toFixed(3),
    mean(({ historyPerSecond }) => historyPerSecond).toFixed(2),
    (mean(({ delay }) => delay.medianMs) / 1000).toFixed(1),
    (most(({ delay }) => delay.p99Ms) / 1000).toFixed(0),
  ]
}

function share(runs: readonly RunResult[], of: 'captured' | 'whole' = 'captured'): number {
  const sum = (value: (run: RunResult) => number) => runs.reduce((total, run) => total + value(run), 0)
  return sum((run) => run[of]) / sum(({ total }) => total)
}

/** With another watch of tickers than the default the recorder is not compared with the present. */
function judge({ name, minShare }: Cell, results: ReadonlyMap<string, readonly RunResult[]>, watchMs: number): Check[] {
  const own = results.get(ours) ?? []
  const shareOf = (other: string) => share(results.get(other) ?? [])
  const most = (value: (run: RunResult) => number) => Math.max(...own.map(value)) / 1000
  const [inSeconds, inPoints] = [
    { unit: 's', decimals: 1 },
    { unit: 'points', decimals: 1 },
  ]
  return [
    atLeast(`${name}: share after repair`, share(own, 'whole'), wanted.whole, { decimals: 5 }),
    atMost(
      `${name}: half of the fills stored within`,
      most(({ delay }) => delay.medianMs),
      wanted.medianS,
      inSeconds,
    ),
    atMost(
      `${name}: 99 % of the fills stored within`,
      most(({ delay }) => delay.p99Ms),
      wanted.p99S,
      inSeconds,
    ),
    ...(watchMs === usualWatchMs
      ? [atLeast(`${name}: captured, of ${present}`, share(own) / shareOf(present), minShare, { decimals: 3 })]
      : []),
    atMost(
      `${name}: lost beside ${failingBeside} instruments that fail`,
      (share(own) - shareOf(beside)) * 100,
      maxFailingCost * 100,
      inPoints,
    ),
    atMost(
      `${name}: every instrument had a response after`,
      most((run) => run.firstMs),
      firstWithinMs / 1000,
      inSeconds,
    ),
  ]
}
