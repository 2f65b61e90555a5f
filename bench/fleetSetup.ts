import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Simulator, startSimulator } from '../src/simulator/server.js'
import { openDatabase, type RecorderDatabase } from '../src/db/database.js'
import { freePort } from './freePort.js'
import { favour, favourNoMore } from './priority.js'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/server/embedded/embedded.js'

/** One simulator, one database server, and recorders that send from 127.0.0.1 upwards. */
export interface FleetBench {
  readonly simulator: Simulator
  readonly database: RecorderDatabase
  start(address: number, config: unknown): Promise<void>
  /** Ends some at once with the signal and waits for them. */
  stop(addresses: readonly number[], signal: NodeJS.Signals): Promise<void>
  readonly running: () => readonly number[]
  restartDatabase(): Promise<void>
  close(): Promise<void>
}

const entryPoint = fileURLToPath(new URL('../program/main.js', import.meta.url))

export function addressOf(number: number): string {
  return `127.0.0.${number}`
}

export async function openFleetBench(seed: number, limitFactor: number): Promise<FleetBench> {
  // The service and the database are not on the recorders' machines: these must not take the processor from them.
  favour(process.pid)
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-fleet-bench-'))
  const simulator = await startSimulator({ seed, scale: 'small', journal: true, limits: { factor: limitFactor } })
  const port = await freePort()
  const dataDir = join(folder, 'postgres')
  const settings = { max_connections: '300' }
  let server: EmbeddedPostgres = await startEmbeddedPostgres({ dataDir, port, settings })
  const database = openDatabase({ url: server.url, poolSize: 2 })
  const daemons = new Map<number, ChildProcess>()
  const stop = async (addresses: readonly number[], signal: NodeJS.Signals) => {
    await Promise.all(
      addresses.map(async (address) => {
        const daemon = daemons.get(address)
        daemons.delete(address)
        if (daemon === undefined || daemon.exitCode !== null || daemon.signalCode !== null) return
        const ended = once(daemon, 'exit')
        daemon.kill(signal)
        await ended
      }),
    )
  }
  return {
    simulator,
    database,
    async start(address, config) {
      const path = join(folder, `${address}.json`)
      await writeFile(path, JSON.stringify(config))
      const env = {
        ...process.env,
        DATABASE_URL: server.url,
        EXCHANGE_BASE_URL: simulator.url,
        EXCHANGE_LOCAL_ADDRESS: addressOf(address),
        COLLECTOR_EGRESS: addressOf(address),
        LOG_LEVEL: 'error',
      }
      const args = [
        entryPoint,
        'start',
        '--allow-overload',
        '--config',
        path,
        '--data-dir',
        join(folder, `data-${address}`),
      ]
      const daemon = spawn(process.execPath, args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
      favourNoMore(daemon.pid)
      daemons.set(address, daemon)
    },
    stop,
    running: () => [...daemons.keys()],
    async restartDatabase() {
      await server.stop()
      server = await startEmbeddedPostgres({ dataDir, port, settings })
    },
    async close() {
      await stop([...daemons.keys()], 'SIGKILL')
      await database.close()
      await simulator.close()
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Lets the candles of the last minutes tell which gaps are none, and ends all. */
export async function settleAndStop(bench: FleetBench): Promise<number> {
  await sleep(45_000)
  const endedAt = Date.now()
  await bench.stop(bench.running(), 'SIGTERM')
  return endedAt
}
