import { type Check, check, none } from './checks.js'

/** Which seeds are tried, and for how long at the most. */
export interface Seeds {
  readonly first: number
  readonly count: number
  readonly minutes: number
  readonly stopsAtFirst: boolean
}

/** Tries seed after seed until all are done or the time is over, and prints what `violationOf` says of one. */
export async function trySeeds(
  { first, count, minutes, stopsAtFirst }: Seeds,
  wrongs: string,
  violationOf: (seed: number) => Promise<string | null>,
): Promise<Check[]> {
  const until = performance.now() + minutes * 60_000
  const maxViolated = stopsAtFirst ? 1 : Infinity
  let [done, violated] = [0, 0]
  for (; done < count && performance.now() < until && violated < maxViolated; done++) {
    const seed = first + done
    const violation = await violationOf(seed).catch((error: unknown) => (error as Error).stack ?? String(error))
    if (violation === null) continue
    violated++
    process.stdout.write(`seed ${seed}: ${violation}\n`)
  }
  return [
    check(`sequences from seed ${first} on`, `${done}; go on with --seed ${first + done}`, `${count}`, done === count),
    none(`sequences ${wrongs}`, violated),
  ]
}
