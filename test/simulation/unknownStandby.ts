import type { FaultKind, PlannedFault } from './faultPlan.js'
import type { Presence } from './leaseKnowledge.js'
import { apartMs } from './sendersWatch.js'

/** A recorder may wait for its turn so long without the owner knowing of it: two renewals, on a slow way. */
const knownAfterMs = 2_000
/** After its way to the database is clear again an owner learns within so long that it is none. */
const learnsWithinMs = 3_000

/** With so much delay both sides give up the connection, too. */
const losesConnection: ReadonlySet<FaultKind> = new Set(['database silent', 'database slow'])

interface Stretch {
  readonly fromMs: number
  toMs: number
}

/**
 * Returns true if two recorders of one address may both have sent in the window that ends now. An owner that loses its
 * connection without a refusal goes on if no other recorder waited when it last looked (docs/reliability.md, "Two
 * recorders, one address"). One that reaches the database only then takes over beside it: it was started, or its way
 * was clear again.
 *
 * The results of the database say what each recorder knew and since when it can be seen. The faults say why an owner
 * could not look. An owner that could look and did not is not excused.
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
  // What one sent that has crashed since counts, too.
  const present = presences.flatMap(({ before, ...now }) =>
    before !== undefined && (now.startedMs ?? 0) >= nowMs - windowMs ? [now, before] : [now],
  )
  // A recorder that is started without the database relies on what it last read.
  const beginsWithout = outagesOf(faults).some(
    (outage) =>
      hasNow(outage) &&
      present.some(
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

/** Returns true if a recorder that looked until then could not see it. */
function isUnknown({ startedMs, visibleSinceMs }: Presence, untilMs: number): boolean {
  if (startedMs === undefined) return false
  return startedMs >= untilMs || visibleSinceMs === undefined || visibleSinceMs >= untilMs
}

/** The times without a server. Between two close ones no recorder may have read anything. */
function outagesOf(faults: readonly PlannedFault[]): readonly Stretch[] {
  return joined(faults.filter(isRefusal))
}

/** The times in which a machine could not read the database. Between two close ones it may not have read it, either. */
function silencesOf(faults: readonly PlannedFault[], machine: number): readonly Stretch[] {
  // A refusal tells who may send only to recorders that knew before.
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
