import type { Report } from '../../src/simulator/limits.js'
import type { SimulatorOptions } from '../../src/simulator/server.js'
import { favour, startChild } from './processes.js'

/** A request that the simulator has received. */
export interface SentRequest {
  readonly atMs: number
  readonly source: string
  readonly operation: string
  /** The path with its parameters. */
  readonly path: string
}

/** How late the simulator's event loop was since its start. */
export interface SimulatorLag {
  readonly p99Ms: number
  readonly maxMs: number
}

export interface BenchSimulator {
  readonly url: string
  report(): Promise<Report>
  lag(): Promise<SimulatorLag>
  /** The requests since the last call, oldest first. Needs the option `journal`. */
  takeRequests(): Promise<SentRequest[]>
  close(): Promise<void>
}

/** Starts the simulator in a process that goes before what is measured. */
export async function startSimulatorChild(options: SimulatorOptions): Promise<BenchSimulator> {
  const child = await startChild('tools/simulatorChild', options)
  favour(child.pid)
  const url = String(child.ready)
  return {
    url,
    report: async () => (await fetch(`${url}/simulator/report`)).json() as Promise<Report>,
    lag: async () => (await child.ask('lag')) as SimulatorLag,
    async takeRequests() {
      const requests = (await child.ask('requests')) as SentRequest[]
      return requests.toSorted((a, b) => a.atMs - b.atMs)
    },
    close: () => child.close(),
  }
}
