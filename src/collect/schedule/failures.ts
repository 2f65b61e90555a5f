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
  /** Responses missed: the number that the target would have had, had it fared like its group. */
  readonly missed: number
  /** Tally of the group when the target's last request ended. */
  readonly tally: Tally
}

/**
 * Judges whether a target fails alone or with its service. The error does not tell it: a new code may concern all
 * targets, a timeout may concern one. The outcomes of the target's group tell it. Between two failures of a target, a
 * share s of the group's requests has had a response, and the target has missed s of a response.
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
    const missed = run.missed + shareAnswered(run.tally, this.#tallyOf(group))
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

/** Share of the requests ended between two tallies that had a response, 0 to 1; 0 without any. */
function shareAnswered(before: Tally, after: Tally): number {
  const responses = after.responses - before.responses
  return responses === 0 ? 0 : responses / (responses + after.failures - before.failures)
}

/** Longest wait of a target that fails alone, in cycles. An hour, or one cycle if longer, limits it too. */
const maxFailingCycles = 32
/** From this many missed responses on, failures count as lasting. Only one target in twenty gets there by chance. */
const missedToBelieve = 3

/**
 * Returns how long a target waits after its failures. While hardly any request of its group succeeds, that is a minute
 * at most, and no longer than a cycle: a longer wait would prolong an outage, or cost a whole cycle of hours.
 *
 * From the third missed response on, each one doubles the wait. Where a share s of requests succeeds, n failures in a
 * row are n s missed responses. The probability of that by chance is (1 - s) ^ n, which is less than e ^ -(n s). A
 * target without others in its group misses nothing.
 */
export function failingWaitMs({ failures, missed }: FailureRun, everyMs: number): number {
  const longestMs = Math.max(everyMs, Math.min(everyMs * maxFailingCycles, hourMs))
  const soonMs = Math.min(everyMs, backoffMs(failures, retrySoon))
  return Math.min(longestMs, soonMs * 2 ** Math.max(0, missed - missedToBelieve + 1))
}
