import type { Kysely } from 'kysely'
import { operationOfPastFills } from '../market/operation.js'
import { type Fill, fillsPerPage } from '../market/rows.js'
import { addMs, laterOf, secondMs, serviceMs } from '../market/values.js'
import { BoundedMap } from '../runtime/boundedMap.js'
import type { Database } from '../db/schema.js'
import { runOf } from '../ledger/run.js'
import { repeatsRejected } from '../ledger/storeFills.js'
import { explainFills, fillNeighbours, storePastFills } from '../ledger/storePastFills.js'
import { fetchPastFills, fillRefusals, fillWindowMs, type KnownPages, type PastFills } from './fillsWalk.js'
import type { EventHistory } from './sliceWork.js'

export const fillPageRows = 1_000

/** Makes the history of fills, for futures and spot. A page is believed if it shows the stored fills of its time. */
export function fillHistory(db: Kysely<Database>): EventHistory {
  const sizes = new Map<string, KnownPages>()
  const ask: PastFills['ask'] = (client, { series: { category, symbol }, window: { from, to } }, request) =>
    // One millisecond more is requested on both sides, because the ends may be exclusive.
    client
      .pastFills({ category, symbol, limit: fillPageRows, startTime: addMs(from, -1), endTime: to }, request)
      .then((page) =>
        repeatsRejected(page, { operation: operationOfPastFills(category), parameters: { category, symbol } }),
      )
  const source: PastFills = {
    ask,
    sizesOf({ category }) {
      const known = sizes.get(category) ?? {
        largest: 0,
        largestOf: new BoundedMap<number>(),
        reachMs: 0,
        disorderMs: 0,
        disorderAt: serviceMs(0),
        standsMs: secondMs,
        showsLiveIds: false,
      }
      sizes.set(category, known)
      return known
    },
    neighbours: (key, range, slackMs) => fillNeighbours(db, key, range, slackMs),
    async liveFills({ client, ask: send, request }, series) {
      const { category, symbol } = series
      const live = await client.fills({ category, symbol, limit: fillsPerPage }, request)
      const run = runOf(live.rows.map(({ ts }) => ts))
      // Another instrument may have shown the ids. This one has no fill that could.
      if (run === null) return source.sizesOf(series).showsLiveIds ? [] : fillRefusals.unproven
      const window = { from: laterOf(run.oldest, addMs(run.newest, -fillWindowMs)), to: addMs(run.newest, 1) }
      const past = await send(() => ask(client, { series, window }, request))
      const times = new Map<string, number>(past.rows.map(({ execId, ts }) => [execId, ts]))
      const isShown = ({ execId, ts }: Fill) => [ts, ts - (ts % secondMs)].includes(times.get(execId) ?? NaN)
      return live.rows.some(isShown) ? live.rows : fillRefusals.unproven
    },
    store: ({ series, ...page }) => storePastFills(db, series, page),
    explain: (key, range, reason) => explainFills(db, key, range, reason),
  }
  return { operationOf: operationOfPastFills, fetch: (...what) => fetchPastFills(source, ...what) }
}
