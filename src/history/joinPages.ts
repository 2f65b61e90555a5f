import type { ServiceMs } from '../market/values.js'
import { runOf } from '../ledger/run.js'

export const ascends = (rows: readonly { readonly ts: ServiceMs }[]): boolean =>
  (rows[0]?.ts ?? 0) < (rows.at(-1)?.ts ?? 0)

/**
 * Returns rows with those of the page that their cursor named; null if these do not go on in the same direction. The
 * page begins with `repeated` rows that end those above. Rows of the joining millisecond that both show may be the same
 * rows: of equal ones there are as many as the part shows that has more of them.
 */
export function continueRows<Row extends { readonly ts: ServiceMs }>(
  above: readonly Row[],
  page: readonly Row[],
  repeated: number,
  textOf: (row: Row) => string,
): readonly Row[] | null {
  const seam = above.at(-1)?.ts
  const known = new Map<string, number>()
  for (const text of above.map(textOf)) known.set(text, (known.get(text) ?? 0) + 1)
  const further: Row[] = []
  for (const [place, row] of page.entries()) {
    const text = textOf(row)
    const left = known.get(text)
    if (left !== undefined) known.set(text, left - 1)
    if (place < repeated) continue
    if (row.ts !== seam && left !== undefined) return null
    if (left === undefined || left <= 0) further.push(row)
  }
  const continued = [...above, ...further]
  const disorderOf = (rows: readonly Row[]) => runOf(rows.map(({ ts }) => ts))?.disorderMs ?? 0
  const rest = page.slice(repeated)
  if (disorderOf(continued) > Math.max(disorderOf(above), disorderOf(rest))) return null
  // The newest rows come first, unless a page shows another order.
  return ascends(continued) && !ascends(above) && !ascends(rest) ? null : continued
}

/**
 * Joins a numbered page to the pages above it. New rows that came meanwhile move all others down, so that the page
 * repeats the last rows above it. Equal rows at the end of one page and the beginning of the next count as repeated.
 */
export function joinPages<Row>(
  above: readonly Row[],
  page: readonly Row[],
  textOf: (row: Row) => string,
): readonly Row[] {
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
  return [...above, ...page.slice(repeated)]
}
