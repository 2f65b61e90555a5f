import pLimit from 'p-limit'
import type { WantKind } from '../ledger/history/candleWants.js'
import type { CandleOperation } from './pageRequest.js'

/** Of all slices, from the request until the rows are committed: what a crash costs at most. */
const maxPages = 32
/** Of them for backfill; where `candles` is busy with the live streams, they wait for long and must not keep the others waiting. */
const maxRecentPages = 12

/** How many pages a process asks for at once. The others wait here, before the client's priority classes know of them. */
export class PagesInHand {
  readonly #all = pLimit(maxPages)
  readonly #recent = pLimit(maxRecentPages)

  /** Calls `ask` as soon as there is a place. A page of a repair does not wait for recent ones of a backfill: it goes before them. */
  ask<Response>(kind: WantKind, operation: CandleOperation, ask: () => Promise<Response>): Promise<Response> {
    const inHand = () => this.#all(ask)
    return operation === 'candles' && kind !== 'repair' ? this.#recent(inHand) : inHand()
  }
}
