import type { Fault } from '../../src/simulator/faults.js'
import { createRandom } from '../../src/simulator/world/hash.js'

/** Something that goes wrong, and for how long. */
export type ChaosEvent =
  | { readonly kind: 'service'; readonly faults: readonly Fault[]; readonly forMs: number }
  | { readonly kind: 'kill the daemon'; readonly downMs: number }
  | { readonly kind: 'stop the daemon'; readonly downMs: number }
  | { readonly kind: 'restart the database' }
  | { readonly kind: 'crash the database' }
  | { readonly kind: 'database away'; readonly forMs: number }
  | { readonly kind: 'end all sessions' }
  | { readonly kind: 'lock a table'; readonly forMs: number }
  | { readonly kind: 'read-only database'; readonly forMs: number }

export interface PlannedEvent {
  readonly atMs: number
  readonly event: ChaosEvent
}

/** The time from the beginning of an accident to that of the next one, from and to. */
export type Spacing = readonly [minMs: number, maxMs: number]

/** A plan of accidents for so many milliseconds: the same for the same seed. None lasts for more than a third of it. */
export function planChaos(seed: number, durationMs: number, spacing: Spacing = [4_000, 16_000]): PlannedEvent[] {
  const longestMs = durationMs / 3
  const random = createRandom(seed)
  const between = (from: number, to: number) => Math.round(from + random() * (to - from))
  const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random() * values.length)] as Value
  const service = (faults: readonly Fault[], least: number, most: number): ChaosEvent => ({
    kind: 'service',
    faults,
    forMs: Math.min(longestMs, between(least, most)),
  })
  const probability = () => 0.2 + random() * 0.7
  const kinds: readonly (() => ChaosEvent)[] = [
    () => ({ kind: 'kill the daemon', downMs: between(0, 4_000) }),
    () => ({ kind: 'kill the daemon', downMs: between(0, 4_000) }),
    () => ({ kind: 'stop the daemon', downMs: between(0, 2_000) }),
    () => ({ kind: 'restart the database' }),
    () => ({ kind: 'crash the database' }),
    () => ({ kind: 'database away', forMs: Math.min(longestMs, 30_000) }),
    () => ({ kind: 'end all sessions' }),
    () => ({ kind: 'lock a table', forMs: between(3_000, 8_000) }),
    () => ({ kind: 'read-only database', forMs: between(3_000, 8_000) }),
    () => service([{ kind: 'http', status: 429, probability: probability() }], 2_000, 6_000),
    () => service([{ kind: 'block' }], 100, 300),
    () => service([{ kind: 'http', status: pick([500, 502, 503, 504]), probability: probability() }], 5_000, 20_000),
    () => service([{ kind: 'tornBody', cut: pick(['length', 'chunked']), probability: probability() }], 5_000, 20_000),
    () => service([{ kind: 'emptyBody', probability: probability() }], 5_000, 15_000),
    () => service([{ kind: 'latency', minMs: 1_000, maxMs: 4_000, probability: probability() }], 5_000, 20_000),
    () => service([{ kind: 'html', probability: probability() }], 5_000, 10_000),
    () => service([{ kind: 'reset', probability: probability() }], 5_000, 15_000),
    () => service([{ kind: 'noResponse', probability: 0.1 }], 5_000, 10_000),
    () => service([{ kind: 'slowBody', overMs: 3_000, probability: 0.5 }], 5_000, 10_000),
    () => service([{ kind: 'errorCode', code: pick(['45001', '40725', '40808', '40015']) }], 5_000, 15_000),
    () => service([{ kind: 'oldEnvelope', probability: probability() }], 5_000, 10_000),
    () => service([{ kind: 'down' }], 3_000, 15_000),
  ]
  // Every kind of event happens once, in random order, before any of them happens again.
  let musts: (() => ChaosEvent)[] = []
  const plan: PlannedEvent[] = []
  for (let atMs = between(5_000, 10_000); atMs < durationMs; atMs += between(...spacing)) {
    if (musts.length === 0)
      musts = kinds
        .map((kind) => ({ kind, order: random() }))
        .toSorted((a, b) => a.order - b.order)
        .map(({ kind }) => kind)
    const event = musts.pop()?.()
    if (event !== undefined) plan.push({ atMs, event })
  }
  return plan
}

export function eventText(event: ChaosEvent): string {
  if (event.kind === 'service') {
    const [fault] = event.faults
    const share =
      fault && 'probability' in fault && fault.probability !== undefined ? ` at ${fault.probability.toFixed(2)}` : ''
    return `${fault?.kind}${share} for ${(event.forMs / 1000).toFixed(1)} s`
  }
  if ('forMs' in event) return `${event.kind} for ${(event.forMs / 1000).toFixed(1)} s`
  return event.kind
}
