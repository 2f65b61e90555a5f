import type { InstrumentKey } from '../../market/category.js'
import type { Fill } from '../../market/fill.js'
import type { TimeMs } from '../../market/values.js'
import { type Batch, isPlain, seriesKey } from './batch.js'

type FillBatch = Batch<InstrumentKey, Fill>

interface NewestPage {
  /** In the order of the response. */
  readonly execIds: readonly string[]
  readonly newest: TimeMs
}

/** What of a response is not known to be stored. */
export interface UnknownFills {
  readonly rows: readonly Fill[]
  /** The newest that is known; -Infinity where none is. */
  readonly knownUntil: TimeMs
}

/**
 * The fills of the newest stored response of each instrument. The next response repeats what is still on its page, of quiet
 * instruments nearly all of it, and need not bring that to the database to be found there.
 */
export class NewestPages {
  readonly #pages = new Map<string, NewestPage>()

  unknownOf(batch: FillBatch): UnknownFills {
    const page = this.#pages.get(seriesKey(batch))
    if (page === undefined) return { rows: batch.rows, knownUntil: -Infinity }
    const { execIds, newest } = page
    const rows: Fill[] = []
    let place = 0
    let others: Set<string> | undefined
    for (const row of batch.rows) {
      // Behind what is new comes the page before, in its order: seldom does anything have to be looked for.
      if (row.ts <= newest && row.execId === execIds[place]) place++
      else if (row.ts > newest || !(others ??= new Set(execIds)).has(row.execId)) rows.push(row)
    }
    return { rows, knownUntil: newest }
  }

  /** Call it with everything that is committed, rows of which none was refused. */
  stored(batch: Batch): void {
    if (batch.stream !== 'fills' || !isPlain(batch) || batch.rows.length === 0) return
    const execIds: string[] = []
    let newest = -Infinity
    for (const { execId, ts } of batch.rows as readonly Fill[]) {
      execIds.push(execId)
      if (ts > newest) newest = ts
    }
    this.#pages.set(seriesKey(batch), { execIds, newest })
  }

  /** When the database was away: what comes back may be another server, without what the first one stored last. */
  forget(): void {
    this.#pages.clear()
  }
}
