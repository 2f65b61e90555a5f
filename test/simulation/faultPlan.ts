/** Something that goes wrong in a world for a while. Times are in milliseconds from its beginning. */
export interface PlannedFault {
  readonly atMs: number
  readonly forMs: number
  readonly what: FaultKind
  /** How bad it is, from 0 to 1. */
  readonly size: number
  /** The place of the machine that it meets. */
  readonly machine: number
}

/** `machine suspended`: nothing runs on the machine, its monotonic clock stands still, and the time of day goes on. */
export const faultKinds = [
  'network cut',
  'network loss',
  'network resets',
  'network slow',
  'service refused',
  'service errors',
  'service garbage',
  'service torn bodies',
  'service trickles',
  'service late',
  'service short lists',
  'resolver silent',
  'database refused',
  'database silent',
  'database slow',
  'database severed',
  'database refusing',
  'machine suspended',
  'disk full',
  'disk slow',
  'disk read errors',
  'crash',
  'restart',
  'clock jump',
] as const
/** `crash loop`: a supervisor starts a recorder again and again, which ends each time before it has done much. */
export type FaultKind = (typeof faultKinds)[number] | 'crash loop'

export interface FaultPlanOptions {
  readonly random: () => number
  readonly fromMs: number
  readonly untilMs: number
  readonly machines: number
}

/** Time between two requests of the list of instruments. */
const listEveryMs = 300_000

/** Faults that meet a machine together. By chance they would rarely do so. */
const companions: readonly (readonly FaultKind[])[] = [
  ['database refused', 'disk full', 'crash'],
  ['database silent', 'disk slow', 'restart'],
  ['database severed', 'machine suspended', 'crash'],
  ['network cut', 'restart', 'clock jump'],
  ['database refusing', 'disk read errors', 'crash'],
]

/**
 * Draws the faults of a world, in order of time, from the seed alone: dropping one changes no other. Each world has some
 * kinds of faults only, each more or less often. Otherwise rare events would never happen twice in a row.
 */
export function planFaults({ random, fromMs, untilMs, machines }: FaultPlanOptions): PlannedFault[] {
  const kinds = kindsOfWorld(random)
  const total = kinds.reduce((sum, { weight }) => sum + weight, 0)
  const meanGapMs = 2_000 * 40 ** random()
  // Most are over in seconds, some last: in some worlds all of them are short.
  const longestMs = 3_000 * 40 ** random()
  const faults: PlannedFault[] = []
  for (let atMs = fromMs + random() * meanGapMs; ; atMs += 200 + random() * 2 * meanGapMs) {
    let drawn = random() * total
    const what = kinds.find(({ weight }) => (drawn -= weight) < 0)?.what ?? 'restart'
    const forMs = Math.round(200 * (longestMs / 200) ** random())
    const [size, machine] = [random(), Math.floor(random() * machines)]
    if (atMs >= untilMs) return faults
    // What a short list left out is back with the next list.
    const lastsMs = forMs + (what === 'service short lists' ? listEveryMs : 0)
    if (atMs + lastsMs <= untilMs) faults.push({ atMs: Math.round(atMs), forMs, what, size, machine })
  }
}

/** The place of the machine whose recorder ends again and again: the second one. */
const loopingMachine = 1

/** Draws the crash loops of a second recorder, which about a third of the worlds have. */
export function planCrashLoops(random: () => number, fromMs: number, untilMs: number): PlannedFault[] {
  if (random() < 0.65) return []
  const loops: PlannedFault[] = []
  for (let atMs = fromMs + random() * 120_000; ; atMs += 30_000 + random() * 240_000) {
    const forMs = Math.round(10_000 + random() * 60_000)
    if (atMs + forMs > untilMs) return loops
    loops.push({ atMs: Math.round(atMs), forMs, what: 'crash loop', size: random(), machine: loopingMachine })
    atMs += forMs
  }
}

/** A random part of the kinds, with a random weight each. */
function kindsOfWorld(random: () => number): { readonly what: FaultKind; readonly weight: number }[] {
  const share = random()
  const together = companions[Math.floor(random() * companions.length * 2)] ?? []
  const kinds = faultKinds.filter((what) => random() < share || together.includes(what))
  return (kinds.length === 0 ? faultKinds : kinds).map((what) => ({ what, weight: 0.1 + random() }))
}

/** The time since the last fault at a moment; 0 during a fault. */
export function calmMs(faults: readonly PlannedFault[], nowMs: number): number {
  let sinceMs = 0
  for (const { atMs, forMs } of faults) if (atMs <= nowMs) sinceMs = Math.max(sinceMs, Math.min(nowMs, atMs + forMs))
  return nowMs - sinceMs
}

/** The longest time that a database call hangs. What a pause left on a disk is stored within this time, too. */
const settledWithinMs = 60_000

/**
 * The times of responses of which a process left neither rows nor a gap at its end; null if it left everything. When
 * the disk is full and the database fails, a dropped snapshot is noted in memory, until the database takes the note.
 */
export function droppedWithoutNote(
  faults: readonly PlannedFault[],
  { machine, endedMs }: { readonly machine: number; readonly endedMs: number },
): { readonly fromMs: number; readonly toMs: number } | null {
  const begun = faults.filter(({ atMs }) => atMs <= endedMs)
  const own = begun.filter((fault) => fault.machine === machine)
  const suspendedMs = own.reduce((sum, { what, forMs }) => sum + (what === 'machine suspended' ? forMs : 0), 0)
  const isRecent = ({ atMs, forMs }: PlannedFault, sinceMs: number) =>
    atMs + forMs + suspendedMs + settledWithinMs >= sinceMs
  // The database has failed since then, one failure soon after the other. Responses have waited on the disk meanwhile.
  let fromMs = endedMs
  for (const fault of begun.toReversed())
    if (fault.what.startsWith('database ') && isRecent(fault, fromMs)) fromMs = Math.min(fromMs, fault.atMs)
  const losing = own.filter((fault) => isLosing(fault) && isRecent(fault, fromMs))
  if (losing.length === 0 || fromMs === endedMs) return null
  return { fromMs: Math.min(fromMs, ...losing.map(({ atMs }) => atMs)), toMs: endedMs }
}

/** Returns true for a fault of a disk that costs it responses. */
function isLosing({ what }: PlannedFault): boolean {
  return what === 'disk full' || what === 'disk read errors'
}

export function faultText({ atMs, forMs, what, size, machine }: PlannedFault): string {
  return `${(atMs / 1000).toFixed(3)} s: ${what}, machine ${machine}, for ${forMs} ms, size ${size.toFixed(2)}`
}
