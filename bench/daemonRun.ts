import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { DaemonSample } from './daemonProcess.js'

export interface DaemonRun {
  readonly samples: readonly DaemonSample[]
  /** Resolves after so many milliseconds; rejects if the daemon ends meanwhile. */
  during(ms: number): Promise<void>
  close(): Promise<void>
}

const entryPoint = fileURLToPath(new URL('../src/main.js', import.meta.url))

/** A simulator and a daemon that reports on itself, each in a process of its own. */
export async function startDaemonRun(env: Readonly<Record<string, string>>, scale: string): Promise<DaemonRun> {
  const simulator = spawn(process.execPath, [entryPoint, 'simulate', '--port', '0', '--scale', scale], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const daemon = fork(fileURLToPath(new URL('./daemonProcess.js', import.meta.url)), {
    env: { ...process.env, ...env, EXCHANGE_BASE_URL: await firstUrl(simulator) },
  })
  const samples: DaemonSample[] = []
  daemon.on('message', (sample: DaemonSample) => samples.push(sample))
  const ended = once(daemon, 'exit').then(() => {
    throw new Error('the daemon ended by itself')
  })
  ended.catch(() => undefined)
  return {
    samples,
    async during(ms) {
      await Promise.race([new Promise((resolve) => setTimeout(resolve, ms)), ended])
    },
    async close() {
      if (daemon.exitCode === null && daemon.signalCode === null) {
        const exit = once(daemon, 'exit')
        daemon.kill('SIGTERM')
        await exit
      }
      simulator.kill('SIGTERM')
    },
  }
}

async function firstUrl(child: ChildProcess): Promise<string> {
  if (child.stdout === null) throw new Error('the simulator has no output to read its address from')
  for await (const line of createInterface(child.stdout)) {
    const url = /https?:\/\/\S+/.exec(line)?.[0]
    if (url !== undefined) return url
  }
  throw new Error('the simulator ended without saying where it listens')
}
