import { benchSymbols } from './backfillMarket.js'
import {
  type Bench,
  candleRequests,
  openBench,
  type Program,
  sleep,
  startProgram,
  stopProgram,
} from './backfillSetup.js'
import {
  backfillArgs,
  type BackfillBenchOptions,
  type Check,
  compare,
  configOf,
  minRequests,
  rangeOf,
} from './backfillWork.js'

const workers = 8
/** Of a worker, from a request until the rows are committed (history/runSlice.ts): what a kill may cost. */
const pagesInHand = 32
/** To find out where the service's candles begin and how far back they reach, each time a worker starts. */
const requestsOfStart = 24
const sampleMs = 1_000
/** A fifth of the candles of minutes: with limits that are scaled down as much, they decide how long it takes, and not this machine. */
const interval = '5m'
const jitterMs = 100

/**
 * Eight workers on addresses of their own against one database, each killed once and started again, beside a single one with its own
 * address and database.
 */
export async function benchEight({ days, factor, alone: aloneTook }: BackfillBenchOptions): Promise<Check[]> {
  const bench = await openBench({ limitFactor: factor, jitterMs: 0 })
  try {
    const { from, to } = rangeOf(days)
    const least = minRequests(from, to, benchSymbols.length, interval)
    const worker = async (name: string, localAddress: string) => {
      const config = { ...configOf(bench, factor, jitterMs, { localAddress }), collector: { egress: name } }
      return backfillArgs(await bench.configure(name, config), from, to, interval)
    }
    const one = aloneTook ?? timeOfOne(bench, await worker('one', '127.0.0.10'))

    const shared = await bench.createDatabase('eight')
    const addresses = Array.from({ length: workers }, (_, index) => `127.0.0.${11 + index}`)
    const args = await Promise.all(addresses.map((address, index) => worker(`worker-${index + 1}`, address)))
    const startedMs = performance.now()
    const programs = args.map((own) => startProgram(own, shared.url))
    const ended = new AbortController()
    const sampling = samples(bench, addresses, ended.signal)
    const expectedMs = (least / (workers * 20 * factor)) * 1000
    await kills(programs, (index) => startProgram(args[index] ?? [], shared.url), expectedMs, startedMs)
    const results = await Promise.all(programs.map(({ ended: end }) => end))
    const eightTook = (performance.now() - startedMs) / 1000
    ended.abort()
    const sampled = await sampling
    console.log(`eight workers: ${eightTook.toFixed(1)} s; requests a second in each tenth of it: ${tenths(sampled)}`)
    for (const { exitCode, stderr } of results) if (exitCode !== 0) console.log(stderr.trim())
    const { requests, rejected } = candleRequests(only(await bench.report(), addresses))
    const wrong = await compare(shared.database, from, to, interval)
    console.log(
      `compared with the simulator's market: ${wrong} candles differ; ${requests} requests, ${least} at least`,
    )
    const maxAgain = workers * (pagesInHand + 2 * requestsOfStart)
    const oneTook = await one
    return [
      [
        `a year by eight workers, each killed once, of the time of one (limits x ${factor})`,
        `${eightTook.toFixed(1)} s / ${oneTook.toFixed(1)} s = ${(eightTook / oneTook).toFixed(4)}`,
        '<= 0.14',
        eightTook / oneTook <= 0.14,
      ],
      ['candles of the eight that differ', String(wrong), '0', wrong === 0],
      [
        'requests of the eight beyond the least possible',
        `${requests - least} of ${requests}`,
        `<= ${maxAgain}`,
        requests - least <= maxAgain,
      ],
      [
        'exit codes of the eight',
        results.map(({ exitCode }) => exitCode).join(' '),
        'all 0',
        results.every(({ exitCode }) => exitCode === 0),
      ],
      ['rejections', String(rejected), '0', rejected === 0],
    ]
  } finally {
    await bench.close()
  }
}

/** How long a worker without others takes, seconds. */
async function timeOfOne(bench: Bench, args: readonly string[]): Promise<number> {
  const { url } = await bench.createDatabase('one')
  const startedMs = performance.now()
  const { exitCode, stderr } = await startProgram(args, url).ended
  if (exitCode !== 0) throw new Error(`the worker without others ended with exit code ${exitCode}: ${stderr.trim()}`)
  return (performance.now() - startedMs) / 1000
}

/** Kills each once, one after the other in the middle of the work, and starts it again at once. */
async function kills(
  programs: Program[],
  start: (index: number) => Program,
  expectedMs: number,
  startedMs: number,
): Promise<void> {
  for (const [index, program] of programs.entries()) {
    const atMs = startedMs + expectedMs * (0.15 + (0.6 * index) / workers)
    await sleep(Math.max(0, atMs - performance.now()))
    await stopProgram(program, 'SIGKILL')
    programs[index] = start(index)
  }
}

/** Requests of all of them together in each second. */
async function samples(bench: Bench, addresses: readonly string[], signal: AbortSignal): Promise<number[]> {
  const counts: number[] = []
  let before = 0
  while (!signal.aborted) {
    await sleep(sampleMs)
    const { requests } = candleRequests(only(await bench.report(), addresses))
    counts.push(requests - before)
    before = requests
  }
  return counts
}

function tenths(counts: readonly number[]): string {
  return Array.from({ length: 10 }, (_, tenth) => {
    const part = counts.slice(Math.floor((counts.length * tenth) / 10), Math.floor((counts.length * (tenth + 1)) / 10))
    return (part.reduce((sum, count) => sum + count, 0) / Math.max(1, part.length)).toFixed(0)
  }).join(' ')
}

function only<Of>(report: Readonly<Record<string, Of>>, addresses: readonly string[]): Record<string, Of> {
  return Object.fromEntries(Object.entries(report).filter(([address]) => addresses.includes(address)))
}
