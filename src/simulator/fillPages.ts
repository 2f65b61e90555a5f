import type { Category } from '../market/category.js'
import type { Operation } from '../market/operation.js'
import { dayMs, type TimeMs } from '../market/values.js'
import type { PastFillsOperation, PastFillsQuery } from './parameters.js'
import { idsOfHistory, isOfInstrument, type FillRow, type PastFillRow } from './world/fillRows.js'
import { fixed, mix, mixText, unit } from './world/hash.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

type HiddenFills = Quirks['hiddenFills'][number]

/** How far back the history of fills reaches. */
const historyMs = 90 * dayMs

/** Returns the newest fills, without those that are hidden at the moment. */
export function fillPage(
  world: World,
  quirks: Quirks,
  category: Category,
  symbol: string,
  at: TimeMs,
  asked: number,
): readonly FillRow[] {
  const limit = pageLimit(quirks, 'fills', asked)
  const hidden = hiddenFrom('newest', quirks, category, symbol, at)
  const shownUntil = at - (mixText(at, symbol) % (quirks.fillsBehindMs + 1))
  const more = hidden.reduce((sum, { from, to }) => sum + world.fills(category, symbol, from, to).length, 0)
  const rows = world
    .latestFills(category, symbol, shownUntil, limit + more)
    .filter((row) => !isHiddenFill(hidden, Number(row.ts)))
    .slice(0, limit)
    .map((row) => flapping(quirks, row, row.execId, at))
  return inOrder(quirks, 'fills', rows.toReversed(), at, rows)
}

/** Returns a page of the history of fills: the newest requested ones, as far back as the history reaches. */
export function pastFillPage(
  world: World,
  quirks: Quirks,
  operation: PastFillsOperation,
  query: PastFillsQuery,
  at: TimeMs,
): readonly PastFillRow[] {
  const { category, symbol, startTime, endTime, idLessThan } = query
  const isFromOldest = quirks.oldestFirst.includes(operation)
  const range = {
    from: Math.max(startTime, at - historyMs),
    to: Math.min(endTime, at) + 1,
    idBelow: idLessThan === null ? null : idOfLive(idLessThan, quirks, category),
    isFromOldest,
  }
  const hidden = hiddenFrom('history', quirks, category, symbol, at)
  // Hidden fills shorten the page, because the service finds all its rows and then does not show all of them.
  const rows = world
    .pastFills(category, symbol, range, pageLimit(quirks, operation, query.limit))
    .filter(({ ts }) => !isHiddenFill(hidden, Number(ts) < 1e11 ? Number(ts) * 1000 : Number(ts)))
    .map((row) => flapping(quirks, row, row.tradeId, at))
  return quirks.unordered.includes(operation) ? inOrder(quirks, operation, rows, at) : rows
}

/** Returns the number of rows that a page may hold. A service may cut limits silently. */
export function pageLimit({ pageRows }: Quirks, operation: Operation, asked: number): number {
  return Math.min(asked, pageRows[operation] ?? asked)
}

/**
 * Returns rows in the order in which an operation gives them.
 *
 * @param rows the rows as an operation gives them that has the oldest first, or no order
 * @param otherwise the rows as other operations give them
 */
export function inOrder<Row>(
  { oldestFirst, unordered }: Quirks,
  operation: Operation,
  rows: readonly Row[],
  at: TimeMs,
  otherwise = rows,
): readonly Row[] {
  if (unordered.includes(operation)) {
    const keyed = rows.map((row, place) => ({ row, key: mix(at, place, 0x0de) }))
    return keyed.toSorted((one, other) => one.key - other.key).map(({ row }) => row)
  }
  return oldestFirst.includes(operation) ? rows : otherwise
}

/** Returns a fill with the price of this response: that of some fills differs by one unit now and then. */
function flapping<Row extends { readonly price: string }>(
  { flappingFills }: Quirks,
  row: Row,
  id: string,
  at: TimeMs,
): Row {
  if (flappingFills === 0 || unit(mixText(0xf1a9, id)) >= flappingFills || mixText(at, id) % 2 === 0) return row
  return { ...row, price: lastPlaceUp(row.price) }
}

/** Returns a decimal that is one unit of its last place larger. */
export function lastPlaceUp(decimal: string): string {
  const places = decimal.includes('.') ? decimal.length - decimal.indexOf('.') - 1 : 0
  const units = BigInt(decimal.replace('.', '')) + 1n
  return fixed(units, places)
}

/** Returns the live id for an id of the history. The history's own ids begin with 9 instead of 1. */
function idOfLive(id: bigint, quirks: Quirks, category: Category): bigint {
  const text = String(id)
  return idsOfHistory(quirks, category) === 'other' && text.startsWith('9') ? BigInt(`1${text.slice(1)}`) : id
}

function hiddenFrom(
  where: 'newest' | 'history',
  quirks: Quirks,
  category: Category,
  symbol: string,
  at: TimeMs,
): readonly HiddenFills[] {
  return quirks.hiddenFills.filter(
    (range) =>
      (range.in ?? where) === where &&
      isOfInstrument(range, category, symbol) &&
      (range.until === undefined || at < range.until),
  )
}

function isHiddenFill(hidden: readonly HiddenFills[], ts: TimeMs): boolean {
  return hidden.some(({ from, to }) => ts >= from && ts < to)
}
