import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { packageFile } from '../../src/runtime/process.js'

/** A module of the benchmarks that runs in a process of its own. */
export interface Child {
  readonly pid: number | undefined
  /** The first message of the child. */
  readonly ready: unknown
  /** Sends a question and resolves to the next message. */
  ask(question: unknown): Promise<unknown>
  /** Ends the child and waits for its end. */
  close(): Promise<void>
}

/** Starts a module with options, which `childOptions` returns there. Resolves with its first message. */
export async function startChild(module: string, options: object): Promise<Child> {
  const child = fork(packageFile(`dist/bench/${module}.js`), [JSON.stringify(options)])
  const ready = await nextMessage(child)
  return {
    pid: child.pid,
    ready,
    ask(question) {
      const reply = nextMessage(child)
      child.send(question as object)
      return reply
    },
    async close() {
      const ended = child.exitCode === null ? once(child, 'exit') : undefined
      if (child.connected) child.disconnect()
      await ended
    },
  }
}

/** In a child: the options that it was started with. From now on the child ends with the process that started it. */
export function childOptions(): unknown {
  process.once('disconnect', () => process.exit(0))
  return JSON.parse(process.argv[2] ?? '{}') as unknown
}

async function nextMessage(child: ChildProcess): Promise<unknown> {
  const over = new AbortController()
  const { signal } = over
  const ended = once(child, 'exit', { signal }).then(() => {
    throw new Error('a process of the benchmark ended by itself')
  })
  try {
    const [message] = (await Promise.race([once(child, 'message', { signal }), ended])) as [unknown]
    return message
  } finally {
    over.abort()
    ended.catch(() => undefined)
  }
}

/** Gives a process more processor time than what is measured, as if it had a machine of its own. */
export function favour(pid: number | undefined): void {
  setPriorityOf(pid, constants.priority.PRIORITY_HIGH)
}

/** Gives a process that a favoured one started the ordinary share of the processor. */
export function favourNoMore(pid: number | undefined): void {
  setPriorityOf(pid, constants.priority.PRIORITY_NORMAL)
}

function setPriorityOf(pid: number | undefined, priority: number): void {
  try {
    if (pid !== undefined) setPriority(pid, priority)
  } catch {
    console.log('the simulator runs with ordinary priority: keep the machine quiet, or run as root')
  }
}

/** Processor time that a process has used since its start, in seconds. Linux only. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const ticksPerSecond = 100
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond
}

/** The most memory that a process has had since its start, in MiB. NaN while it ends; rejects afterwards. Linux only. */
export async function maxMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? Number.NaN) / 1024
}

/** Follows the memory of a process until it is stopped, which returns the most that was seen, in MiB. */
export function watchMemory(pid = 0): { stop(): number } {
  let peakMb = 0
  const look = async () => {
    const mb = await maxMegabytes(pid).catch(() => 0)
    if (mb > peakMb) peakMb = Math.round(mb)
  }
  const timer = setInterval(() => void look(), 50)
  return {
    stop() {
      clearInterval(timer)
      return peakMb
    },
  }
}
