import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { openDatabase } from '../../src/db/database.js'
import type { Status } from '../../src/serve/api/contract.js'
import { startEmbeddedPostgres } from '../../src/server/embedded/embedded.js'
import { embeddedPaths, readPasswords, readServerState } from '../../src/server/embedded/process.js'
import { compareTables } from './compareTables.js'
import { runProgram, type Running, startProgram } from '../support/program.js'
import { startSimulatorProcess } from '../support/simulatorProcess.js'
import { storeSpooled } from '../support/storeSpooled.js'

/** Each ends a server in a way of its own: at once, in order, with a core, or when its last client has left. */
const signals = ['SIGKILL', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGABRT'] as const
/** More than one shows how long it takes: the times are printed. */
const runs = Number(process.env['KILL_RUNS'] ?? 1)
const settleMs = 5_000
const within = { timeout: 120_000, interval: 100 }
/** It is a promise to users, and a busy machine keeps it too. */
const backWithinMs = 60_000

let folder: string
let dataDir: string
const running = new Set<Running>()

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-kills-'))
  dataDir = join(folder, 'data')
})
afterEach(async () => {
  for (const { process, finished } of running) {
    process.kill('SIGKILL')
    await finished
  }
  running.clear()
  await vi.waitFor(async () => expect(await readServerState(serverFolder())).toBeUndefined(), within)
  await rm(folder, { recursive: true, force: true })
})

const serverFolder = () => join(dataDir, 'postgres')

function start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
  const program = startProgram(args, env)
  running.add(program)
  return program
}

/** Sends the signal to the server, and resolves when another one responds: to how long that took. */
async function kill(signal: NodeJS.Signals, recorder: Running): Promise<number> {
  let ended: string | undefined
  void recorder.finished.then(({ exitCode, stdout, stderr }) => (ended = `${exitCode}: ${stdout}${stderr}`))
  const dead = await readServerState(serverFolder())
  if (dead === undefined) throw new Error('there is no server to kill')
  const killedAt = performance.now()
  process.kill(dead.pid, signal)
  for (let failure: unknown; ; await sleep(50)) {
    const state = await readServerState(serverFolder())
    try {
      if (state !== undefined && state.pid !== dead.pid) {
        await one(await readerUrl(dead.port), 'select 1')
        return performance.now() - killedAt
      }
    } catch (error) {
      failure = error
    }
    if (ended === undefined && performance.now() - killedAt < backWithinMs) continue
    const log = await readFile(embeddedPaths(serverFolder()).log, 'utf8')
    throw new Error(
      `not back after ${signal}; ${JSON.stringify(state)}; ${String(failure)}; ${log.slice(-5_000)}; ${ended}`,
    )
  }
}

async function readerUrl(port: number): Promise<string> {
  return `postgresql://reader:${(await readPasswords(serverFolder())).reader}@127.0.0.1:${port}/recorder`
}

async function one(connectionString: string, sql: string): Promise<unknown> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 5_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<Record<string, unknown>>(sql)
    return Object.values(rows[0] ?? {})[0]
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Three pages, an analyst's short queries and a long one, all of which begin again whenever they end, until it aborts. */
function keepAsking(page: string, port: number, signal: AbortSignal): Promise<unknown> {
  const again = async (work: () => Promise<unknown>) => {
    while (!signal.aborted) {
      await work().catch(() => undefined)
      await sleep(20)
    }
  }
  const paths = ['/api/status', '/api/gaps?days=1', '/api/instruments', '/api/events']
  const pages = paths.map((path) =>
    again(async () =>
      (await fetch(page + path, { signal: AbortSignal.any([signal, AbortSignal.timeout(3_000)]) })).text(),
    ),
  )
  const queries = [
    'select count(*) from market.fills',
    'select pg_sleep(30)',
    // Nothing interrupts it: it notices the end of its server when it has computed its result.
    'select count(*) from generate_series(1, 20000) a, generate_series(1, 5000) b where a * b < 0',
  ]
  return Promise.all([...pages, ...queries.map((sql) => again(async () => one(await readerUrl(port), sql)))])
}

async function statusOf(page: string): Promise<Status> {
  return (await (await fetch(`${page}/api/status`)).json()) as Status
}

/** Waits until the server takes rows again. On a busy machine more may arrive meanwhile than it takes beside the queries. */
async function untilStoring(page: string): Promise<void> {
  const rows = ({ streams }: Status) => streams.reduce((sum, { rowsWritten }) => sum + rowsWritten, 0)
  const before = rows(await statusOf(page))
  await vi.waitFor(async () => {
    const status = await statusOf(page)
    expect({ isReachable: status.database.isReachable, stores: rows(status) > before }).toEqual({
      isReachable: true,
      stores: true,
    })
  }, within)
}

/** Kills the server by each signal while it is asked. Resolves to how long each time it was away, milliseconds. */
async function killBySignals(program: Running, page: string): Promise<number[]> {
  const times: number[] = []
  const { port = 0 } = (await readServerState(serverFolder())) ?? {}
  const ending = new AbortController()
  const asking = keepAsking(page, port, ending.signal)
  for (const signal of signals) {
    await sleep(1_500)
    const tookMs = await kill(signal, program)
    console.log(`${signal}: back after ${Math.round(tookMs)} ms`)
    times.push(tookMs)
    await untilStoring(page)
  }
  ending.abort()
  await asking
  return times
}

/** Waits until everything that went to the disk is stored, once nobody asks the server any more. */
async function untilDrained(page: string): Promise<void> {
  await vi.waitFor(async () => expect((await statusOf(page)).spool).toMatchObject({ bytes: 0, droppedRows: 0 }), {
    timeout: 300_000,
    interval: 500,
  })
}

function report(what: string, times: readonly number[]): void {
  const sorted = times.toSorted((a, b) => a - b)
  const seconds = (ms = 0) => (ms / 1000).toFixed(1)
  console.log(
    `${what}: back after ${seconds(sorted[Math.floor(sorted.length / 2)])} s in the median of ${times.length}, ${seconds(sorted.at(-1))} s at most`,
  )
}

describe('an embedded server that is killed while it records', () => {
  it(
    'is back soon under start, and no row is lost',
    async () => {
      const times: number[] = []
      for (let run = 1; run <= runs; run += 1) {
        dataDir = join(folder, `start${run}`)
        const simulator = await startSimulatorProcess(['--scale', 'tiny', '--journal'])
        const env = { EXCHANGE_BASE_URL: simulator.url }
        const config = join(folder, 'recorder.json')
        const streams = { orderBooks: { everySeconds: 2 } }
        await writeFile(config, JSON.stringify({ database: { dataDir }, streams, serve: { port: 0 } }))
        const daemon = start(['start', '--allow-overload', '--config', config], env)
        const [, page = ''] = await daemon.printed(/the page is at (http:\S+?)["\s]/)
        await daemon.printed(/collecting/)
        const [from = '', to = ''] = [30, 1].map((days) => new Date(Date.now() - days * 86_400_000).toISOString())
        const instrument = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1m']
        const wanted = [...instrument, '--from', from, '--to', to]
        const backfill = start(['backfill', '--config', config, ...wanted], env)
        times.push(...(await killBySignals(daemon, page)))
        await backfill.finished
        const finished = await runProgram(['backfill', '--config', config, ...wanted], env)
        expect(finished.exitCode, finished.stderr).toBe(0)
        await untilDrained(page)
        const stoppedAt = Date.now()
        daemon.process.kill('SIGTERM')
        const { exitCode, stdout, stderr } = await daemon.finished
        expect(exitCode, stdout + stderr).toBe(0)

        const server = await startEmbeddedPostgres({ dataDir: serverFolder() })
        const database = openDatabase({ url: server.url })
        try {
          await storeSpooled(dataDir, database)
          const reports = await compareTables(database.pool, await simulator.journal(), [], [], settleMs, stoppedAt)
          expect(reports.flatMap(({ wrong }) => wrong)).toEqual([])
          console.log(reports.map(({ table, stored }) => `${table} ${stored}`).join(', '))
        } finally {
          await database.close()
          await server.stop()
          await simulator.close()
        }
      }
      report('start', times)
    },
    600_000 * runs,
  )

  it(
    'is back soon under demo, and the sixth death in ten minutes ends the recorder',
    async () => {
      const times: number[] = []
      for (let run = 1; run <= runs; run += 1) {
        dataDir = join(folder, `demo${run}`)
        const demo = start(['demo', '--data-dir', dataDir])
        const [, page = ''] = await demo.printed(/Page +(http:\S+)/)
        await demo.printed(/collecting/)
        times.push(...(await killBySignals(demo, page)))
        // A busy machine goes on by way of the disk: what matters is that nothing was dropped.
        expect((await statusOf(page)).spool.droppedRows).toBe(0)
        process.kill((await readServerState(serverFolder()))?.pid ?? 0, 'SIGKILL')
        const { exitCode, stdout, stderr } = await demo.finished
        expect(exitCode, stdout + stderr).toBe(1)
        expect((stdout + stderr).match(/the recorder ends: .*has died 6 times in ten minutes.*/g)).toHaveLength(1)
      }
      report('demo', times)
    },
    600_000 * runs,
  )
})
