import { setImmediate as nextTurn } from 'node:timers/promises'
import type { FuzzTarget } from './fuzzInputs.js'
import { collectGarbage, metered } from './fuzzMeter.js'

/** Longer uninterrupted work is a stall. */
const maxTurnMs = 250
/** Compiling takes its time once. */
const warmUpRuns = 50

export interface FuzzFigures {
  readonly name: string
  runs: number
  refused: number
  /** Errors that the part does not promise. */
  errors: number
  stalls: number
  longestMs: number
  /** The seed that took the longest. */
  longestSeed: number
}

export interface FuzzOptions {
  readonly seed: number
  /** Asked before each round, of which each gives every target one input. */
  readonly goesOn: (round: number) => boolean
  readonly tell: (line: string) => void
  /** Leaves it to the turns that are measured to collect the garbage of making the inputs: faster, and less exact. */
  readonly isHasty?: boolean
}

/** Gives every target one random input after the other. Inputs are made before what is measured begins. */
export async function fuzz(targets: readonly FuzzTarget[], { seed, goesOn, tell, isHasty = false }: FuzzOptions) {
  const all = targets.map((target) => {
    const figures: FuzzFigures = {
      name: target.name,
      runs: 0,
      refused: 0,
      errors: 0,
      stalls: 0,
      longestMs: 0,
      longestSeed: seed,
    }
    return { target, figures }
  })
  for (let round = 0; goesOn(round); round++) {
    if (!isHasty) collectGarbage({ type: 'major' })
    for (const { target, figures } of all) {
      const inputSeed = seed + round
      const give = target.prepare(inputSeed)
      if (!isHasty) collectGarbage({ type: 'minor' })
      await nextTurn()
      figures.runs += 1
      const { result, longestMs } = await metered(() => give().catch((error: unknown) => ({ error })))
      if (typeof result !== 'string') {
        figures.errors += 1
        const { error } = result
        tell(`${target.name}, seed ${inputSeed}: ${error instanceof Error ? error.stack : String(error)}`)
      } else if (result === 'refused') figures.refused += 1
      if (round < warmUpRuns) continue
      if (longestMs > maxTurnMs) {
        figures.stalls += 1
        tell(`${target.name}, seed ${inputSeed}: ${longestMs.toFixed(0)} ms without a turn for others`)
      }
      if (longestMs > figures.longestMs) Object.assign(figures, { longestMs, longestSeed: inputSeed })
    }
  }
  return all.map(({ figures }) => figures)
}

export function describeFigures({ name, runs, refused, errors, stalls, longestMs, longestSeed }: FuzzFigures): string {
  const longest = `longest turn ${longestMs.toFixed(1)} ms of processor time (seed ${longestSeed})`
  return `${name.padEnd(14)} ${runs} runs, ${refused} refused, ${errors} errors, ${stalls} stalls, ${longest}`
}
