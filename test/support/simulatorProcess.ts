import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import type { Report } from '../../src/simulator/limits.js'
import type { ServedResponse } from '../../src/simulator/control.js'
import type { Stall } from '../../src/simulator/faults.js'
import { startProgram } from './program.js'

/** The simulator in a process of its own: what keeps the recorder's event loop busy must not delay its counting. */
export interface SimulatorProcess {
  readonly url: string
  /** Every answer since the start, oldest first; needs `--journal`. */
  journal(): Promise<ServedResponse[]>
  report(): Promise<Report>
  /** When it did not look at what arrived; needs `--journal`. */
  stalls(): Promise<Stall[]>
  /** Stops the process until `resume`. What arrives meanwhile waits for it. */
  pause(): void
  resume(): void
  close(): Promise<void>
}

export async function startSimulatorProcess(args: readonly string[]): Promise<SimulatorProcess> {
  const program = startProgram(['simulate', '--port', '0', ...args])
  const [url] = await program.printed(/http:\/\/\S+/)
  return {
    url,
    async journal() {
      const { body } = await fetch(`${url}/simulator/journal`)
      const answers: ServedResponse[] = []
      if (body === null) return answers
      for await (const line of createInterface({ input: Readable.fromWeb(body) })) {
        if (line !== '') answers.push(JSON.parse(line) as ServedResponse)
      }
      return answers
    },
    report: async () => (await fetch(`${url}/simulator/report`)).json() as Promise<Report>,
    stalls: async () => (await fetch(`${url}/simulator/stalls`)).json() as Promise<Stall[]>,
    pause: () => void program.process.kill('SIGSTOP'),
    resume: () => void program.process.kill('SIGCONT'),
    async close() {
      program.process.kill('SIGCONT')
      program.process.kill('SIGTERM')
      await program.finished
    },
  }
}
