import { hourMs } from '../../market/values.js'
import { backoffMs } from '../../runtime/clock.js'
import { retrySoon } from './pace.js'

/** Number of requests of a group that have ended, by their outcome. */
interface Tally {
  readonly responses: number
  readonly failures: number
}

/** Failures of a target since its last response. */
export interface FailureRun {
  readonly failures: number
  /** Responses that this target would have had since its last one with the success rate of its group. */
  readonly missed: number
  /** Tally of the group when the target's last request ended. */
  readonly tally: Tally
}

/**
 * Finds out if a target fails alone, or because the whole service fails. The kind of error cannot tell: an unknown code
 * may concern all targets, and a timeout only one. The other requests of the target's group can tell. For example, 6 of
 * 10 requests of the group had a response between two failures of a target. The target then missed 0.6 responses.
 */
export class GroupOutcomes {
  readonly #tallies = new Map<string, Tally>()

  /** Returns a run without failures. */
  begin(group: string): FailureRun {
    return { failures: 0, missed: 0, tally: this.#tallyOf(group) }
  }

  /** Takes a response, which ends the run of failures. */
  responded(group: string): FailureRun {
    this.#add(group, { responses: 1, failures: 0 })
    return this.begin(group)
  }

  failed(run: FailureRun, group: string): FailureRun {
    const missed = run.missed + responseShare(run.tally, this.#tallyOf(group))
    return { failures: run.failures + 1, missed, tally: this.#add(group, { responses: 0, failures: 1 }) }
  }

  #tallyOf(group: string): Tally {
    return this.#tallies.get(group) ?? { responses: 0, failures: 0 }
  }

  #add(group: string, { responses, failures }: Tally): Tally {
    const before = this.#tallyOf(group)
    const tally = { responses: before.responses + responses, failures: before.failures + failures }
    this.#tallies.set(group, tally)
    return tally
  }
}

/** Returns the share of requests with a response, from 0 to 1, among those that ended between two tallies. */
function responseShare(before: Tally, after: Tally): number {
  const responses = after.responses - before.responses
  return responses === 0 ? 0 : responses / (responses + after.failures - before.failures)
}

/** Returns true if a target has missed so many responses that it most probably fails alone. */
export function isFailingAlone({ missed }: FailureRun): boolean {
  return missed >= missedToBelieve
}

/** Longest wait of a target that fails alone, in cycles. It is at most an hour too, or a cycle if that is longer. */
const maxFailingCycles = 32
/** A target that missed this many responses counts as failing alone. Chance alone does this to 1 target in 20. */
const missedToBelieve = 3

/**
 * Returns how long a target waits after its failures. While nearly all requests of its group fail, it waits at most a
 * minute, and at most one cycle. It is then requested soon after the service has recovered.
 *
 * From the third missed response on, each missed response doubles the wait. Suppose that a share s of the group's
 * requests succeeds. A target with n failures in a row then missed n s responses. By chance this happens with
 * probability (1 - s) ^ n, which is below e ^ -(n s): 5 % for 3 missed responses. A target alone in its group misses
 * none.
 */
export function failingWaitMs({ failures, missed }: FailureRun, everyMs: number): number {
  const longestMs = Math.max(everyMs, Math.min(everyMs * maxFailingCycles, hourMs))
  const soonMs = Math.min(everyMs, backoffMs(failures, retrySoon))
  return Math.min(longestMs, soonMs * 2 ** Math.max(0, missed - missedToBelieve + 1))
}
