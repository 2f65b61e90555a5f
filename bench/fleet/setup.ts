import { join } from 'node:path'
import type { RecorderDatabase } from '../../src/db/database.js'
import { operations, specifiedPerSecond } from '../../src/market/operation.js'
import type { Report } from '../../src/simulator/limits.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { type Running, startProgram } from '../../test/support/program.js'
import { withDatabase } from '../tools/database.js'
import { favour, favourNoMore } from '../tools/processes.js'
import { configFile } from '../tools/recorder.js'

export const eight = [1, 2, 3, 4, 5, 6, 7, 8] as const
/** A fifth of the service's limits, for each address: the simulator allows them, and recorders keep them. */
export const limits = {
  overallPerMinute: 1_200,
  perSecond: Object.fromEntries(operations.map((name) => [name, Math.max(1, specifiedPerSecond[name] / 5)])),
}

/** One simulator, one database server, and recorders that send from 127.0.0.1 upwards. */
export interface FleetBench {
  readonly simulator: Simulator
  readonly database: RecorderDatabase
  start(address: number, config: object): Promise<void>
  /** Ends some at once with the signal and waits for them. */
  stop(addresses: readonly number[], signal: NodeJS.Signals): Promise<void>
  readonly running: () => readonly number[]
  restartDatabase(): Promise<void>
}

export function addressOf(number: number): string {
  return `127.0.0.${number}`
}

export async function withFleet<Result>(
  seed: number,
  measure: (bench: FleetBench) => Promise<Result>,
): Promise<Result> {
  // Service and database are not on the recorders' machines: recorders must not take the processor from them.
  favour(process.pid)
  const { perSecond, overallPerMinute: perMinute } = limits
  const simulator = await startSimulator({ seed, scale: 'small', journal: true, limits: { perSecond, perMinute } })
  const recorders = new Map<number, Running>()
  const stop = async (addresses: readonly number[], signal: NodeJS.Signals) => {
    await Promise.all(
      addresses.map(async (address) => {
        const recorder = recorders.get(address)
        if (recorder === undefined) return
        recorders.delete(address)
        if (recorder.process.exitCode !== null) throw new Error(`the recorder of ${addressOf(address)} ended by itself`)
        recorder.process.kill(signal)
        await recorder.finished
      }),
    )
  }
  try {
    return await withDatabase(
      async ({ database, url, folder, restart }) => {
        const start = async (address: number, config: object) => {
          const path = await configFile(folder, String(address), config)
          const args = ['start', '--allow-overload', '--config', path, '--data-dir', join(folder, `data-${address}`)]
          const recorder = startProgram(args, {
            DATABASE_URL: url,
            EXCHANGE_BASE_URL: simulator.url,
            EXCHANGE_LOCAL_ADDRESS: addressOf(address),
            COLLECTOR_EGRESS: addressOf(address),
            LOG_LEVEL: 'error',
          })
          recorder.process.stderr.on('data', (text: string) => process.stderr.write(text))
          favourNoMore(recorder.process.pid)
          recorders.set(address, recorder)
        }
        const bench = { simulator, database, start, stop, running: () => [...recorders.keys()] }
        try {
          return await measure({ ...bench, restartDatabase: restart })
        } finally {
          await stop(bench.running(), 'SIGKILL')
        }
      },
      { poolSize: 2, settings: { max_connections: '300' } },
    )
  } finally {
    await simulator.close()
  }
}

export function countRejected(report: Report): number {
  return Object.values(report).reduce((sum, { overall }) => sum + overall.rejected, 0)
}
