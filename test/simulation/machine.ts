import crypto from 'node:crypto'
import { syncBuiltinESMExports } from 'node:module'
import perfHooks from 'node:perf_hooks'
import type { TimerOptions } from 'node:timers'
import timersPromises from 'node:timers/promises'
import zlib from 'node:zlib'

/**
 * The process as simulated time needs it. Imported before everything else: libraries read clock and chance directly, and work
 * that goes to other threads comes back in an order of its own. While a world runs, all of that is the world's; otherwise it is
 * the machine's.
 */
export interface MachineTime {
  /** Milliseconds since the Unix epoch. */
  now(): number
  monotonicMs(): number
  random(): number
  /** Calls `fire` after `ms`; the result takes that back. */
  after(ms: number, fire: () => void): () => void
}

/** Time and chance of the machine itself, for the harness. */
export const real = {
  now: Date.now.bind(Date),
  monotonicMs: performance.now.bind(performance),
  setImmediate: globalThis.setImmediate,
  setTimeout: globalThis.setTimeout,
  clearTimeout: globalThis.clearTimeout,
}

/** A process id for names of files, equal in every run. */
const simulatedPid = 4242

let current: MachineTime | undefined
/** Turns of the event loop that were asked for. */
const turns = { pending: 0 }

/** From now on everything in this process lives in this time; undefined returns to the machine's. */
export function setMachineTime(time: MachineTime | undefined): void {
  current = time
}

/** Resolves when nobody in this process has anything left to do but to wait for time to pass. */
export async function untilIdle(): Promise<void> {
  do await new Promise<void>((resolve) => void real.setImmediate(resolve))
  while (turns.pending > 0)
}

/** Stands for a timer of Node.js, with the methods that end it or let the process end without it. */
interface Timer {
  readonly cancel: () => void
  ref(): Timer
  unref(): Timer
  hasRef(): boolean
}

function timer(cancel: () => void): Timer {
  const own: Timer = { cancel, ref: () => own, unref: () => own, hasRef: () => true }
  return own
}

function patchTimers(): void {
  const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate } = globalThis
  const cancel = (given: unknown): boolean => {
    if (typeof given !== 'object' || given === null || !('cancel' in given)) return false
    ;(given as Timer).cancel()
    return true
  }
  const later = (fire: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): unknown =>
    current === undefined ? setTimeout(fire, ms, ...args) : timer(current.after(ms, () => fire(...args)))
  const repeatedly = (fire: (...args: unknown[]) => void, ms = 0, ...args: unknown[]): unknown => {
    const time = current
    if (time === undefined) return setInterval(fire, ms, ...args)
    const again = (): void => {
      stop = time.after(ms, again)
      fire(...args)
    }
    let stop = time.after(ms, again)
    return timer(() => stop())
  }
  const soon = (fire: (...args: unknown[]) => void, ...args: unknown[]): unknown => {
    turns.pending++
    return setImmediate(() => {
      turns.pending--
      fire(...args)
    })
  }
  Object.assign(globalThis, {
    setTimeout: later,
    clearTimeout: (given: NodeJS.Timeout) => void (cancel(given) || clearTimeout(given)),
    setInterval: repeatedly,
    clearInterval: (given: NodeJS.Timeout) => void (cancel(given) || clearInterval(given)),
    setImmediate: soon,
  })
  const { setTimeout: sleep } = timersPromises
  const sleepInWorld = (time: MachineTime, ms: number, value: unknown, signal?: AbortSignal): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const abort = () => {
        cancelSleep()
        reject(signal?.reason as Error)
      }
      const cancelSleep = time.after(ms, () => {
        signal?.removeEventListener('abort', abort)
        resolve(value)
      })
      if (signal?.aborted === true) abort()
      signal?.addEventListener('abort', abort, { once: true })
    })
  Object.assign(timersPromises, {
    setTimeout: (ms: number, value: unknown, options: TimerOptions = {}) =>
      current === undefined ? sleep(ms, value, options) : sleepInWorld(current, ms, value, options.signal),
    setImmediate: (value: unknown) => new Promise((resolve) => soon(() => resolve(value))),
  })
}

function patchClockAndChance(): void {
  const { random } = Math
  const { pid } = process
  Object.defineProperty(process, 'pid', { get: () => (current === undefined ? pid : simulatedPid) })
  const { randomBytes, randomUUID } = crypto
  Date.now = () => current?.now() ?? real.now()
  performance.now = () => current?.monotonicMs() ?? real.monotonicMs()
  Math.random = () => current?.random() ?? random()
  const bytes = (count: number): Buffer => {
    if (current === undefined) return randomBytes(count)
    return Buffer.from(Array.from({ length: count }, () => Math.floor(Math.random() * 256)))
  }
  const uuid = (): string => {
    if (current === undefined) return randomUUID()
    const hex = bytes(16).toString('hex')
    return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
  }
  Object.assign(crypto, { randomBytes: bytes, randomUUID: uuid })
}

/** On this thread instead of another one: the result is there before anything else happens. */
function patchCompression(): void {
  type Done = (error: Error | null, result?: Buffer) => void
  const onThisThread =
    (work: (input: Buffer, options: zlib.ZlibOptions) => Buffer) =>
    (input: Buffer, options: zlib.ZlibOptions, done: Done): void => {
      process.nextTick(() => {
        try {
          done(null, work(input, options))
        } catch (error) {
          done(error as Error)
        }
      })
    }
  const { deflateRawSync, inflateRawSync } = zlib
  Object.assign(zlib, { deflateRaw: onThisThread(deflateRawSync), inflateRaw: onThisThread(inflateRawSync) })
}

/** Measurements of this process, which every recorder would begin anew. */
function patchMeasurements(): void {
  const histogram = { enable: () => true, disable: () => true, reset: () => undefined, percentile: () => 0 }
  class NoObserver {
    static readonly supportedEntryTypes = []
    observe(): void {}
    disconnect(): void {}
  }
  Object.assign(perfHooks, {
    monitorEventLoopDelay: () => ({ ...histogram, min: 0, max: 0, mean: 0, stddev: 0 }),
    PerformanceObserver: NoObserver,
  })
}

patchTimers()
patchClockAndChance()
patchCompression()
patchMeasurements()
syncBuiltinESMExports()
