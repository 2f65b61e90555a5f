import type { InstrumentKey } from '../../market/category.js'
import type { Fill } from '../../market/fill.js'
import type { TimeMs } from '../../market/values.js'
import { type Batch, isPlain, seriesKey } from './batch.js'

type FillBatch = Batch<InstrumentKey, Fill>

interface NewestPage {
  /** Two numbers for each fill, in the order of the response: as texts, those of a market would be a fifth of all objects in memory. */
  readonly ids: Float64Array
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
    const { ids, newest } = page
    const rows: Fill[] = []
    let place = 0
    for (const row of batch.rows) {
      // Behind what is new comes the page before, in its order: seldom does anything have to be looked for.
      if (row.ts <= newest && isAt(ids, place, row.execId)) place += 2
      else if (row.ts > newest || !isAmong(ids, row.execId)) rows.push(row)
    }
    return { rows, knownUntil: newest }
  }

  /** Call it with everything that is committed, rows of which none was refused. */
  stored(batch: Batch): void {
    if (batch.stream !== 'fills' || !isPlain(batch) || batch.rows.length === 0) return
    const ids = new Float64Array(2 * batch.rows.length)
    let [place, newest] = [0, -Infinity]
    for (const { execId, ts } of batch.rows as readonly Fill[]) {
      // The service's are numbers of 19 digits; others are not remembered.
      if (!isNumber(execId)) return void this.#pages.delete(seriesKey(batch))
      ids[place++] = headOf(execId)
      ids[place++] = tailOf(execId)
      if (ts > newest) newest = ts
    }
    this.#pages.set(seriesKey(batch), { ids, newest })
  }

  /** When the database was away: what comes back may be another server, without what the first one stored last. */
  forget(): void {
    this.#pages.clear()
  }
}

const tailDigits = 12
const digits = /^[1-9]\d{0,23}$/

/** A number in digits, of which head and tail are exact as doubles, and which no other text has. */
function isNumber(execId: string): boolean {
  return digits.test(execId)
}

function headOf(execId: string): number {
  return Number(execId.slice(0, -tailDigits))
}

function tailOf(execId: string): number {
  return Number(execId.slice(-tailDigits))
}

function isAt(ids: Float64Array, place: number, execId: string): boolean {
  return ids[place + 1] === tailOf(execId) && ids[place] === headOf(execId) && isNumber(execId)
}

function isAmong(ids: Float64Array, execId: string): boolean {
  for (let place = 0; place < ids.length; place += 2) if (isAt(ids, place, execId)) return true
  return false
}
