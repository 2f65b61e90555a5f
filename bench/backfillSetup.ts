import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Report } from '../src/simulator/limits.js'
import type { RecorderDatabase } from '../src/db/database.js'
import { createDatabase } from './databases.js'
import { favour } from './priority.js'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/server/embedded/embedded.js'

/** One database server and one simulator for a measurement, and programs that work with them. */
export interface Bench {
  readonly simulatorUrl: string
  report(): Promise<Report>
  resetReport(): Promise<void>
  /** An empty database of its own. */
  createDatabase(name: string): Promise<{ readonly url: string; readonly database: RecorderDatabase }>
  /** Writes a configuration and returns its path. */
  configure(name: string, config: unknown): Promise<string>
  close(): Promise<void>
}

export async function openBench(options: { readonly limitFactor: number; readonly jitterMs: number }): Promise<Bench> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-'))
  const simulator = fork(fileURLToPath(new URL('./backfillSimulator.js', import.meta.url)), {
    env: {
      ...process.env,
      BENCH_LIMIT_FACTOR: String(options.limitFactor),
      BENCH_JITTER_MS: String(options.jitterMs),
    },
  })
  favour(simulator.pid)
  const [simulatorUrl] = (await once(simulator, 'message')) as [string]
  const server: EmbeddedPostgres = await startEmbeddedPostgres({
    dataDir: join(folder, 'postgres'),
    settings: { max_connections: '300' },
  })
  const databases: RecorderDatabase[] = []
  return {
    simulatorUrl,
    report: async () => (await fetch(`${simulatorUrl}/simulator/report`)).json() as Promise<Report>,
    async resetReport() {
      await fetch(`${simulatorUrl}/simulator/report/reset`, { method: 'POST' })
    },
    async createDatabase(name) {
      const created = await createDatabase(server.url, name, { poolSize: 2 })
      databases.push(created.database)
      return created
    },
    async configure(name, config) {
      const path = join(folder, `${name}.yaml`)
      // JSON is YAML.
      await writeFile(path, JSON.stringify(config))
      return path
    },
    async close() {
      for (const database of databases) await database.close()
      simulator.disconnect()
      await once(simulator, 'exit')
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

export interface Program {
  readonly process: ChildProcess
  readonly ended: Promise<{ readonly exitCode: number | null; readonly stdout: string; readonly stderr: string }>
}

const entryPoint = fileURLToPath(new URL('../program/main.js', import.meta.url))

/** Starts the recorder's program. */
export function startProgram(args: readonly string[], databaseUrl: string): Program {
  const child = spawn(process.execPath, [entryPoint, ...args], {
    env: { ...process.env, DATABASE_URL: databaseUrl },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = once(child, 'close').then(([exitCode]) => ({ exitCode: exitCode as number | null, stdout, stderr }))
  return { process: child, ended }
}

export async function stopProgram(program: Program, signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
  if (program.process.exitCode === null && program.process.signalCode === null) program.process.kill(signal)
  await program.ended
}

export function candleRequests(report: Report): { requests: number; rejected: number; blocks: number } {
  let requests = 0
  let rejected = 0
  let blocks = 0
  for (const { operations, overall } of Object.values(report)) {
    requests += operations.candles.requests + operations['history-candles'].requests
    rejected += overall.rejected
    blocks += overall.blocks
  }
  return { requests, rejected, blocks }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
