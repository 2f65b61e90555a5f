import { groupBy } from '../runtime/groupBy.js'
import type { Status } from './api/contract.js'

/** Failures at the same time for one cause, as one incident. */
export interface JoinedIncident extends Readonly<Omit<Status['incidents'][number], 'lastAt'>> {
  /** Number of earlier incidents of the thing with most of them, and when the first of all began. */
  readonly before: number
  readonly firstSince: number
}

/** Joins the incidents of one thing, and those of one cause at one time. Takes and returns the newest first. */
export function joinedIncidents(incidents: Status['incidents']): readonly JoinedIncident[] {
  const joined: JoinedIncident[] = []
  for (const [what, ofOne] of groupBy(incidents, (incident) => incident.what)) {
    const [newest, ...earlier] = ofOne
    if (newest === undefined) continue
    const { message, count, since, until } = newest
    const firstSince = Math.min(...ofOne.map((one) => one.since))
    const own = { what, message, count, since, until, before: earlier.length, firstSince }
    const at = joined.findIndex((one) => causeOf(one.message) === causeOf(message) && overlap(one, own))
    const other = joined[at]
    if (other === undefined) joined.push(own)
    else joined[at] = joinedOf(other, own)
  }
  return joined
}

function joinedOf(one: JoinedIncident, other: JoinedIncident): JoinedIncident {
  return {
    what: `${one.what}, ${other.what}`,
    message: one.message,
    count: one.count + other.count,
    since: Math.min(one.since, other.since),
    until: one.until === null || other.until === null ? null : Math.max(one.until, other.until),
    before: Math.max(one.before, other.before),
    firstSince: Math.min(one.firstSince, other.firstSince),
  }
}

/** Returns a message without the request or the part that it begins with. */
function causeOf(message: string): string {
  return message.slice(message.indexOf(': ') + 1)
}

function overlap(one: JoinedIncident, other: JoinedIncident): boolean {
  return one.since <= (other.until ?? Infinity) && other.since <= (one.until ?? Infinity)
}
