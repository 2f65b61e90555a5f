import type { Fill } from '../../market/fill.js'
import type { TimeMs } from '../../market/values.js'
import { type Batch, type FillBatch, isPlain, seriesKey } from './batch.js'

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
  /**
   * Whether instruments of which nothing is known are likely to be new to the database, too, as those before them were: in the first
   * minutes of a new recorder nearly all are, of one that was restarted nearly none.
   */
  areLikelyNew = false

  /** Whether anything of its instrument is known to be stored. */
  has(batch: FillBatch): boolean {
    return this.#pages.has(seriesKey(batch))
  }

  unknownOf(batch: FillBatch): UnknownFills {
    const page = this.#pages.get(seriesKey(batch))
    if (page === undefined) return { rows: batch.rows, knownUntil: -Infinity }
    const { ids, newest } = page
    const rows: Fill[] = []
    let place = 0
    for (const row of batch.rows) {
      // Behind what is new comes the page before, in its order: seldom does anything have to be looked for.
      if (row.ts > newest || !split(row.execId, own, 0)) rows.push(row)
      else if (isAt(ids, place)) place += 2
      else if (!isAmong(ids)) rows.push(row)
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
      if (!split(execId, ids, place)) return void this.#pages.delete(seriesKey(batch))
      place += 2
      if (ts > newest) newest = ts
    }
    this.#pages.set(seriesKey(batch), { ids, newest })
  }

  /** From now on nothing is known to be stored. */
  forget(): void {
    this.#pages.clear()
    this.areLikelyNew = false
  }
}

const [maxDigits, tailDigits] = [24, 12]
const [zero, nine] = [0x30, 0x39]
/** The numbers of the fill that is looked at. */
const own = new Float64Array(2)

/** Writes a text of digits as two numbers that are exact, and that no other text has. False for any other text. */
function split(execId: string, into: Float64Array, place: number): boolean {
  const { length } = execId
  if (length === 0 || length > maxDigits || execId.charCodeAt(0) === zero) return false
  let [head, tail] = [0, 0]
  for (let index = 0; index < length; index++) {
    const code = execId.charCodeAt(index)
    if (code < zero || code > nine) return false
    if (index < length - tailDigits) head = head * 10 + code - zero
    else tail = tail * 10 + code - zero
  }
  into[place] = head
  into[place + 1] = tail
  return true
}

function isAt(ids: Float64Array, place: number): boolean {
  return ids[place] === own[0] && ids[place + 1] === own[1]
}

function isAmong(ids: Float64Array): boolean {
  for (let place = 0; place < ids.length; place += 2) if (isAt(ids, place)) return true
  return false
}
