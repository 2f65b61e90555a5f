import type { FaultKind, PlannedFault } from './faultPlan.js'

/** So long a recorder may have waited for its turn without the owner knowing of it: two looks, on a slow way. */
const knownAfterMs = 2_000
/** After its way to the database is clear again an owner learns within so long that it is none. */
const learnsWithinMs = 3_000

/** Of a way that is slow enough both sides give up the connection, too. */
const losesConnection: ReadonlySet<FaultKind> = new Set(['database silent', 'database half open', 'database slow'])

/** When the recorder of each machine that runs was started. */
export type Starts = readonly (number | undefined)[]

/**
 * Whether two recorders of one address may both have sent in the window that ends now: when an owner loses its connection without a refusal,
 * and no other recorder was waiting when it last looked, it goes on (docs/reliability.md, "Two recorders, one address"). One that is
 * started just then, or finds its own way back to the database, takes over beside it.
 */
export function mayBothSend(faults: readonly PlannedFault[], starts: Starts, nowMs: number, windowMs: number): boolean {
  const isInOutage = ({ what, atMs, forMs }: PlannedFault, ms: number, moreMs = 0) =>
    what === 'database refused' && atMs <= ms && ms <= atMs + forMs + moreMs
  // One that is started without the database goes by what it knew when it last asked.
  const beginsWithout = faults.some(
    (fault) =>
      isInOutage(fault, nowMs, learnsWithinMs + windowMs) &&
      starts.some((startedMs) => startedMs !== undefined && isInOutage(fault, startedMs)),
  )
  if (beginsWithout) return true
  return starts.some((_, owner) =>
    silencesOf(faults, owner).some(({ fromMs, toMs }) => {
      if (fromMs > nowMs || nowMs > toMs + learnsWithinMs + windowMs) return false
      const unknownFromMs = fromMs - knownAfterMs
      return starts.some((startedMs, machine) => {
        if (machine === owner) return false
        if (startedMs !== undefined && startedMs >= unknownFromMs) return true
        return faults.some(
          (fault) =>
            fault.machine === machine &&
            fault.what.startsWith('database') &&
            fault.atMs <= nowMs &&
            fault.atMs + fault.forMs >= unknownFromMs,
        )
      })
    }),
  )
}

/** When a machine could not learn anything from the database. Between two that follow on it may not have learned anything, either. */
function silencesOf(faults: readonly PlannedFault[], machine: number): { readonly fromMs: number; toMs: number }[] {
  const silences: { readonly fromMs: number; toMs: number }[] = []
  for (const { atMs, forMs, what, machine: hit } of faults.toSorted((a, b) => a.atMs - b.atMs)) {
    // A refusal says who may send only to those who knew before.
    const isRefusal = what === 'database refused'
    if (!isRefusal && (hit !== machine || !losesConnection.has(what))) continue
    const last = silences.at(-1)
    if (last !== undefined && atMs <= last.toMs + learnsWithinMs) last.toMs = Math.max(last.toMs, atMs + forMs)
    else if (!isRefusal) silences.push({ fromMs: atMs, toMs: atMs + forMs })
  }
  return silences
}
