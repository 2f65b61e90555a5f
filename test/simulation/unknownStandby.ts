import type { FaultKind, PlannedFault } from './faultPlan.js'
import type { Presence } from './leaseKnowledge.js'
import { apartMs } from './sendersWatch.js'

/** So long a recorder may have waited for its turn without the owner knowing of it: two renewals, on a slow way. */
const knownAfterMs = 2_000
/** After its way to the database is clear again an owner learns within so long that it is none. */
const learnsWithinMs = 3_000

/** Of a way that is slow enough both sides give up the connection, too. */
const losesConnection: ReadonlySet<FaultKind> = new Set(['database silent', 'database slow'])

interface Stretch {
  readonly fromMs: number
  toMs: number
}

/**
 * Whether two recorders of one address may both have sent in the window that ends now: when an owner loses its connection without a
 * refusal, and no other recorder was waiting when it last looked, it goes on (docs/reliability.md, "Two recorders, one address").
 * One that comes to the database only then, because it was started, or found its own way back, takes over beside it.
 *
 * What each was told, and since when it can be seen, is known here as the database has said it. Only why an owner could not look
 * is taken from the faults: one that could and did not is not excused.
 *
 * @param presences one for each machine, by its place
 */
export function mayBothSend(
  faults: readonly PlannedFault[],
  presences: readonly Presence[],
  nowMs: number,
  windowMs: number,
): boolean {
  const hasNow = ({ fromMs, toMs }: Stretch) => fromMs <= nowMs && nowMs <= toMs + learnsWithinMs + windowMs
  // One that is started without the database goes by what it knew when it last asked.
  const beginsWithout = outagesOf(faults).some(
    (outage) =>
      hasNow(outage) &&
      presences.some(
        ({ startedMs, firstHeardMs }) =>
          startedMs !== undefined && startedMs <= outage.toMs && (firstHeardMs ?? Infinity) >= outage.fromMs,
      ),
  )
  if (beginsWithout) return true
  return presences.some(({ aloneUntilMs }, owner) => {
    if (aloneUntilMs < nowMs - windowMs - apartMs) return false
    const others = presences.filter((_, machine) => machine !== owner)
    return silencesOf(faults, owner).some(
      (silence) => hasNow(silence) && others.some((other) => isUnknown(other, silence.fromMs - knownAfterMs)),
    )
  })
}

/** Whether one that looked until then could not see it. */
function isUnknown({ startedMs, visibleSinceMs }: Presence, untilMs: number): boolean {
  if (startedMs === undefined) return false
  return startedMs >= untilMs || visibleSinceMs === undefined || visibleSinceMs >= untilMs
}

/** When there was no server. Between two that follow on nobody may have learned anything. */
function outagesOf(faults: readonly PlannedFault[]): readonly Stretch[] {
  return joined(faults.filter(isRefusal))
}

/** When a machine could not learn anything from the database. Between two that follow on it may not have learned anything, either. */
function silencesOf(faults: readonly PlannedFault[], machine: number): readonly Stretch[] {
  // A refusal says who may send only to those who knew before.
  return joined(
    faults.filter((fault) => isRefusal(fault) || (fault.machine === machine && losesConnection.has(fault.what))),
    (fault) => !isRefusal(fault),
  )
}

function isRefusal({ what }: PlannedFault): boolean {
  return what === 'database refused'
}

function joined(faults: readonly PlannedFault[], mayBegin: (fault: PlannedFault) => boolean = () => true): Stretch[] {
  const stretches: Stretch[] = []
  for (const fault of faults.toSorted((a, b) => a.atMs - b.atMs)) {
    const { atMs, forMs } = fault
    const last = stretches.at(-1)
    if (last !== undefined && atMs <= last.toMs + learnsWithinMs) last.toMs = Math.max(last.toMs, atMs + forMs)
    else if (mayBegin(fault)) stretches.push({ fromMs: atMs, toMs: atMs + forMs })
  }
  return stretches
}
