import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks'
import { byOperation, type Operation, operations } from '../market/operation.js'
import { byStream, type StreamName, streamNames } from '../market/stream.js'
import { sum, type MachineMs } from '../market/values.js'
import type { Clock } from '../runtime/clock.js'
import type { RecorderSource } from './source.js'

const sampleMs = 1000
/** Number of samples whose mean is a displayed rate. */
const rateSamples = 10
const historySamples = 5
const historyLength = 60
const lagResolutionMs = 10

/** Samples the recorder's counters once a second and keeps five minutes of them. */
export class Sampler {
  readonly #source: RecorderSource
  readonly #clock: Pick<Clock, 'now'>
  readonly #timer: NodeJS.Timeout
  readonly #lag: IntervalHistogram = monitorEventLoopDelay({ resolution: lagResolutionMs })
  #lagP99Ms = 0
  #samples = 0
  #spoolingSince: MachineMs | null = null
  #before: Readonly<Record<StreamName, number>>
  /** Number of rows written in each of the last seconds, newest last. */
  readonly #rows: Record<StreamName, number[]> = byStream(() => [])
  readonly #history: Record<StreamName, number[]> = byStream(() => [])
  readonly #requests: Record<Operation, number[]> = byOperation(() => [])

  constructor(source: RecorderSource, clock: Pick<Clock, 'now'>) {
    this.#source = source
    this.#clock = clock
    this.#before = rowsOf(source)
    this.#lag.enable()
    this.#timer = setInterval(() => this.sample(), sampleMs)
    this.#timer.unref()
  }

  /** Rows per second, mean of the last ten seconds. */
  rowsPerSecond(stream: StreamName): number {
    return mean(this.#rows[stream])
  }

  /** Requests per second, mean of the last ten seconds. */
  requestsPerSecond(operation: Operation): number {
    return mean(this.#requests[operation])
  }

  /** Rows per second, one mean for each five seconds, oldest first. */
  history(stream: StreamName): readonly number[] {
    return this.#history[stream]
  }

  /** 99th percentile of the last whole minute. Before its end, it is that of the time since the start. */
  get eventLoopLagP99Ms(): number {
    return this.#lagP99Ms > 0 ? this.#lagP99Ms : this.#measuredLagMs()
  }

  /** Time since when responses have gone to disk, to a second; null while they go straight to the database. */
  get spoolingSince(): MachineMs | null {
    return this.#spoolingSince
  }

  /** Takes the sample of one second. */
  sample(): void {
    const now = rowsOf(this.#source)
    this.#spoolingSince = this.#source.backlog().isSpooling ? (this.#spoolingSince ?? this.#clock.now()) : null
    const { operations: used } = this.#source.budget()
    this.#samples += 1
    for (const stream of streamNames) {
      push(this.#rows[stream], now[stream] - this.#before[stream], rateSamples)
      if (this.#samples % historySamples === 0) {
        push(this.#history[stream], mean(this.#rows[stream].slice(-historySamples)), historyLength)
      }
    }
    for (const operation of operations) push(this.#requests[operation], used[operation].used, rateSamples)
    this.#before = now
    if (this.#samples % 60 === 0) {
      this.#lagP99Ms = this.#measuredLagMs()
      this.#lag.reset()
    }
  }

  close(): void {
    clearInterval(this.#timer)
    this.#lag.disable()
  }

  /** Returns the lag of the event loop. The histogram measures whole ticks, so their length is subtracted. */
  #measuredLagMs(): number {
    const ms = this.#lag.percentile(99) / 1e6 - lagResolutionMs
    return Number.isFinite(ms) ? Math.max(0, ms) : 0
  }
}

function rowsOf(source: RecorderSource): Record<StreamName, number> {
  return byStream((name) => source.streams[name].rowsWritten)
}

function push(values: number[], value: number, most: number): void {
  values.push(value)
  if (values.length > most) values.shift()
}

function mean(values: readonly number[]): number {
  if (values.length === 0) return 0
  return Math.round((sum(values) / values.length) * 100) / 100
}
