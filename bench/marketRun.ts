import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { stringify } from 'yaml'
import { loadConfig } from '../src/config/load.js'
import { readAddress } from '../src/serve/address.js'
import type { Status } from '../src/serve/api/contract.js'
import { openDatabase } from '../src/db/database.js'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import { oddPrefix } from './marketKinds.js'
import type { MarketOptions, Truth } from './marketSimulator.js'

export interface MarketRun {
  readonly planExit: number
  readonly daemonExit: number
  readonly truth: Truth
  readonly stored: Stored
  /** Of the times that it was looked at, once everything had had its first response: how often all streams were fresh. */
  readonly freshShare: number
  readonly stale: readonly string[]
  readonly lastStatus: Status | null
}

/** Rows of the ordinary instruments. */
export interface Stored {
  readonly fills: number
  readonly books: number
  readonly candles: number
  readonly candleGaps: number
  readonly lostFillGaps: number
}

const entryPoint = fileURLToPath(new URL('../src/main.js', import.meta.url))
const lookEveryMs = 10_000
/** Until then instruments are still waiting for their first response. */
const settledAfterMs = 180_000

/** Records a simulated market with the default configuration for a while, as a user would: plan, start, status, stop. */
export async function recordMarket(market: MarketOptions, minutes: number): Promise<MarketRun> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-market-'))
  const simulator = fork(fileURLToPath(new URL('./marketSimulator.js', import.meta.url)), {
    env: { ...process.env, BENCH_MARKET: JSON.stringify(market) },
  })
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'server') })
  let daemon: ChildProcess | undefined
  const killDaemon = () => daemon?.kill('SIGKILL')
  try {
    const [baseUrl] = (await once(simulator, 'message')) as [string]
    const file = join(folder, 'recorder.yaml')
    await writeFile(
      file,
      stringify({ exchange: { limits: limitsFor(market.part) }, serve: { port: 0 }, database: { dataDir: folder } }),
    )
    const env = { ...process.env, EXCHANGE_BASE_URL: baseUrl, DATABASE_URL: server.url, LOG_LEVEL: 'warn' }
    const planExit = await exitOf(
      spawn(process.execPath, [entryPoint, 'plan', '--config', file], { env, stdio: 'inherit' }),
    )
    const from = Date.now()
    daemon = spawn(process.execPath, [entryPoint, 'start', '--config', file], {
      env,
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    const ended = exitOf(daemon)
    // Whoever interrupts the measurement does not mean to leave a recorder behind.
    process.once('exit', killDaemon)
    const watched = await watch(folder, from, from + minutes * 60_000, ended)
    daemon.kill('SIGTERM')
    const daemonExit = await ended
    simulator.send({ from, to: Date.now() })
    const [truth] = (await once(simulator, 'message')) as [Truth]
    return { planExit, daemonExit, truth, stored: await countStored(server.url, from), ...watched }
  } finally {
    process.off('exit', killDaemon)
    if (daemon?.exitCode === null) killDaemon()
    if (simulator.connected) simulator.disconnect()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** The specified limits, divided by as much as the market is. */
function limitsFor(part: number) {
  const { overallPerMinute, perSecond } = loadConfig({ env: {} }).exchange.limits
  const divided = (limit: number) => Math.max(1, Math.floor(limit / part))
  return {
    overallPerMinute: divided(overallPerMinute),
    perSecond: Object.fromEntries(Object.entries(perSecond).map(([name, limit]) => [name, divided(limit)])),
  }
}

async function exitOf(child: ChildProcess): Promise<number> {
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? -1
}

async function watch(folder: string, from: number, until: number, ended: Promise<number>) {
  let [looks, fresh] = [0, 0]
  const stale = new Map<string, number>()
  let lastStatus: Status | null = null
  const hasEnded = ended.then((code) => {
    throw new Error(`the daemon ended by itself with ${code}`)
  })
  hasEnded.catch(() => undefined)
  while (Date.now() < until) {
    await Promise.race([new Promise((resolve) => setTimeout(resolve, lookEveryMs)), hasEnded])
    lastStatus = (await readStatus(folder)) ?? lastStatus
    if (lastStatus === null || Date.now() - from < Math.min(settledAfterMs, (until - from) / 2)) continue
    looks++
    const problems = lastStatus.problems.map(({ message }) => message)
    const staleStreams = lastStatus.streams.filter(({ state }) => state === 'stale')
    if (staleStreams.length === 0) fresh++
    for (const { name } of staleStreams) stale.set(name, (stale.get(name) ?? 0) + 1)
    if (problems.length > 0) console.log(`  ${Math.round((Date.now() - from) / 1000)} s: ${problems.join(' ')}`)
  }
  return {
    freshShare: looks === 0 ? 0 : fresh / looks,
    stale: [...stale].map(([name, count]) => `${name} ${count}`),
    lastStatus,
  }
}

async function readStatus(folder: string): Promise<Status | null> {
  try {
    const url = await readAddress(folder)
    if (url === null) return null
    return (await (await fetch(new URL('/api/status', url))).json()) as Status
  } catch {
    return null
  }
}

async function countStored(url: string, from: number): Promise<Stored> {
  const database = openDatabase({ url, poolSize: 1, applicationName: 'market-recorder bench' })
  try {
    const since = sql`${new Date(from)}::timestamptz`
    const ordinary = sql`not starts_with(symbol, ${oddPrefix})`
    const { rows } = await sql<Stored>`
      select (select count(*) from market.fills where ts >= ${since} and ${ordinary}) as fills,
        (select count(*) from market.order_books where ${ordinary})
          + (select count(*) from market.rpi_order_books where ${ordinary}) as books,
        (select count(*) from market.candles where open_time >= ${since} and ${ordinary}) as candles,
        (select count(*) from market.gaps where stream = 'candles') as "candleGaps",
        (select count(*) from market.gaps where stream = 'fills' and state = 'lost') as "lostFillGaps"
    `.execute(database.db)
    const [row] = rows
    if (row === undefined) throw new Error('the database counted nothing')
    return row
  } finally {
    await database.close()
  }
}
