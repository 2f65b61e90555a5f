import type { ServiceMs } from '../market/values.js'
import { extendRun, type GrowingRun } from '../ledger/run.js'

/** A request for one page: by its number from 1, or by the name that the page before gave. */
export interface PageQuery {
  readonly page: number
  readonly limit: number
  readonly cursor?: string
}

/**
 * Returns the numbered page that shows most new rows and still one of the rows before. New rows move pages down, so a
 * page that only adjoins proves nothing. A smaller limit makes pages overlap.
 */
export function nextNumbered(shown: number, { limit: largest }: PageQuery): PageQuery | null {
  if (shown < 2) return null
  let best: PageQuery = { page: 2, limit: Math.min(largest, shown - 1) }
  for (let page = 2; page <= shown; page++) {
    const limit = Math.min(largest, Math.floor((shown - 1) / (page - 1)))
    if (page * limit > best.page * best.limit) best = { page, limit }
  }
  return best
}

/** Returns the longest numbered page that begins with the row after those shown, with at most `largest` rows. */
export function beyondNumbered(shown: number, largest: number): PageQuery {
  let limit = Math.min(shown, largest)
  while (shown % limit > 0) limit--
  return { page: shown / limit + 1, limit }
}

/** The rows that the joined pages of a walk show, in their order. To add a page costs no look at the rows before it. */
export class ShownRows<Row extends { readonly ts: ServiceMs }> {
  readonly rows: Row[] = []
  run: GrowingRun | null = null
  readonly #textOf: (row: Row) => string
  /** The number of rows with each text. */
  readonly #counts = new Map<string, number>()

  /** @param textOf returns a text that tells rows apart */
  constructor(textOf: (row: Row) => string) {
    this.#textOf = textOf
  }

  has(row: Row): boolean {
    return this.#counts.has(this.#textOf(row))
  }

  add(further: readonly Row[]): void {
    for (const row of further) {
      const text = this.#textOf(row)
      this.#counts.set(text, (this.#counts.get(text) ?? 0) + 1)
      this.rows.push(row)
    }
    this.run = this.runWith(further)
  }

  /** Returns the run of the rows and of further ones. */
  runWith(further: readonly Row[]): GrowingRun | null {
    return extendRun(this.run, timesOf(further))
  }

  /**
   * Returns the further rows of the page that their cursor named; null if these do not go on in the same direction. The
   * page begins with `repeated` rows that end those above. Rows of the joining millisecond that both show may be the
   * same rows: of equal ones there are as many as the part shows that has more of them.
   */
  furtherOf(page: readonly Row[], repeated: number): readonly Row[] | null {
    const above = this.rows
    const seam = above.at(-1)?.ts
    const left = new Map<string, number>()
    const further: Row[] = []
    for (const [place, row] of page.entries()) {
      const text = this.#textOf(row)
      const known = this.#counts.get(text)
      const rest = left.get(text) ?? known ?? 0
      left.set(text, rest - 1)
      if (place < repeated) continue
      if (row.ts !== seam && known !== undefined) return null
      if (rest <= 0) further.push(row)
    }
    const disorderMs = this.runWith(further)?.disorderMs ?? 0
    const rest = page.slice(repeated)
    const restMs = extendRun(null, timesOf(rest))?.disorderMs ?? 0
    if (disorderMs > Math.max(this.run?.disorderMs ?? 0, restMs)) return null
    // The newest rows come first, unless a page shows another order.
    const doAscend = (above[0]?.ts ?? 0) < ((further.at(-1) ?? above.at(-1))?.ts ?? 0)
    return doAscend && !ascends(above) && !ascends(rest) ? null : further
  }
}

const timesOf = (rows: readonly { readonly ts: ServiceMs }[]) => rows.map(({ ts }) => ts)

export const ascends = (rows: readonly { readonly ts: ServiceMs }[]): boolean =>
  (rows[0]?.ts ?? 0) < (rows.at(-1)?.ts ?? 0)

/**
 * Returns the number of rows with which a page repeats the last rows above it. Those move all others down that came
 * meanwhile. Equal rows at the end of one page and the beginning of the next count as repeated.
 */
export function countRepeated<Row>(above: readonly Row[], page: readonly Row[], textOf: (row: Row) => string): number {
  const begins = page.map(textOf)
  // A page may have thousands of rows, so each is looked at a few times only, as Knuth, Morris and Pratt found out.
  const shorter: number[] = []
  /** Returns the length of the longest beginning of the page that ends with a text, after one of length `before`. */
  const lengthWith = (text: string, before: number): number => {
    let length = before
    while (length > 0 && begins[length] !== text) length = shorter[length - 1] ?? 0
    return begins[length] === text ? length + 1 : 0
  }
  for (const [place, text] of begins.entries())
    shorter.push(place === 0 ? 0 : lengthWith(text, shorter[place - 1] ?? 0))
  let repeated = 0
  for (const row of above.slice(-page.length)) repeated = lengthWith(textOf(row), repeated)
  return repeated
}
