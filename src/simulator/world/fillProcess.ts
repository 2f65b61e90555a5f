import type { TimeMs } from '../../market/values.js'

/** When fills happen and how large they are. Every fill has a stable index; indices ascend with time. */
export interface FillProcess {
  /** How many fills have a smaller time than `at`, counted from the epoch. */
  countBefore(at: TimeMs): number
  /** When the fill with this index happens. */
  timeOf(index: number): TimeMs
  /** Size of a fill in lots, at least 1. */
  sizeOf(index: number): number
  /** Sum of the sizes of the fills with indices in [from, to), in lots, at a cost that does not grow with their number. */
  sizeOfRange(from: number, to: number): number
  /** Visits every run with fills among the indices [from, to) of an hour (counted from the epoch), in order. */
  eachRun(hour: number, from: number, to: number, visit: RunVisitor): void
  /** The sweep that a fill is part of; null when it is part of none, and has the price of its run. */
  sweepOf(index: number): Sweep | null
  /** Visits every sweep that has all of its fills among the indices [from, to), in order. */
  eachSweep(from: number, to: number, visit: (sweep: Sweep) => void): void
}

/** An order that eats through several price levels: many fills within one millisecond. */
export interface Sweep {
  readonly first: number
  readonly count: number
}

export type RunVisitor = (run: number, firstIndex: number, count: number) => void

export interface FillRate {
  /** On average; with a common factor single hours have far more or less. */
  readonly perHour: number
  readonly meanSizeLots: number
  /** 0: fills are spread evenly; towards 1: ever more of them come in bursts. */
  readonly burstiness: number
}
