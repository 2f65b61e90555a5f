/** Something that goes wrong in a world for a while. Times are in milliseconds from its beginning. */
export interface PlannedFault {
  readonly atMs: number
  readonly forMs: number
  readonly what: FaultKind
  /** How bad it is, from 0 to 1. */
  readonly size: number
  /** Which of the machines it meets. */
  readonly machine: number
}

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
  'database refused',
  'database silent',
  'database slow',
  'database severed',
  'disk full',
  'disk slow',
  'crash',
  'restart',
  'clock jump',
] as const
export type FaultKind = (typeof faultKinds)[number]

export interface FaultPlanOptions {
  readonly random: () => number
  readonly fromMs: number
  readonly untilMs: number
  readonly meanGapMs: number
  readonly machines: number
}

/** What goes wrong, in the order of time. Drawn from the seed alone, so that dropping one changes no other. */
export function planFaults({ random, fromMs, untilMs, meanGapMs, machines }: FaultPlanOptions): PlannedFault[] {
  const faults: PlannedFault[] = []
  for (let atMs = fromMs + random() * meanGapMs; ; atMs += 500 + random() * 2 * meanGapMs) {
    const what = faultKinds[Math.floor(random() * faultKinds.length)] as FaultKind
    // Most are over in seconds, some last.
    const forMs = Math.round(200 * 150 ** random())
    const [size, machine] = [random(), Math.floor(random() * machines)]
    if (atMs + forMs > untilMs) return faults
    faults.push({ atMs: Math.round(atMs), forMs, what, size, machine })
  }
}

export function faultText({ atMs, forMs, what, size, machine }: PlannedFault): string {
  return `${(atMs / 1000).toFixed(3)} s: ${what}, machine ${machine}, for ${forMs} ms, size ${size.toFixed(2)}`
}
