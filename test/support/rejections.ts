import type { ServedResponse } from '../../src/simulator/control.js'
import type { Stall } from '../../src/simulator/faults.js'

/** Limits are counted in windows of a second. */
const windowMs = 1_000

/**
 * Requests that were refused for being too many although the ways of requests varied by no more than the recorder was told to
 * expect. A process that stands still holds requests up like a way that is longer for a while: where the stalls of the second
 * before, of the recorder's process and the simulator's together, are longer than that, nothing was promised.
 *
 * @param latencyJitterMs what the recorder was told
 * @returns one line each
 */
export function brokenPromises(
  journal: readonly Pick<ServedResponse, 'operation' | 'status' | 'atMs'>[],
  stalls: readonly Stall[],
  latencyJitterMs: number,
): string[] {
  const stalledMs = (fromMs: number, toMs: number) =>
    stalls.reduce((sum, stall) => sum + (stall.fromMs < toMs && stall.toMs > fromMs ? stall.toMs - stall.fromMs : 0), 0)
  return journal
    .filter(
      ({ status, atMs }) => status === 429 && stalledMs(atMs - windowMs - latencyJitterMs, atMs + 1) <= latencyJitterMs,
    )
    .map(({ operation, atMs }) => `${operation} at ${new Date(atMs).toISOString()}`)
}
