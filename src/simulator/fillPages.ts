import type { Category } from '../market/category.js'
import { dayMs, type TimeMs } from '../market/values.js'
import type { PastFillsQuery } from './parameters.js'
import type { FillRow, PastFillRow } from './world/fillRows.js'
import { mixText } from './world/hash.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

type HiddenFills = Quirks['hiddenFills'][number]

/** The newest fills, without those that are hidden for now. */
export function fillPage(
  world: World,
  quirks: Quirks,
  category: Category,
  symbol: string,
  at: TimeMs,
  limit: number,
): readonly FillRow[] {
  const hidden = hiddenFrom('newest', quirks, category, symbol, at)
  const shownUntil = at - (mixText(at, symbol) % (quirks.fillsBehindMs + 1))
  if (hidden.length === 0) return world.latestFills(category, symbol, shownUntil, limit)
  const more = hidden.reduce((sum, { from, to }) => sum + world.fills(category, symbol, from, to).length, 0)
  return world
    .latestFills(category, symbol, shownUntil, limit + more)
    .filter((row) => !isHidden(hidden, Number(row.ts)))
    .slice(0, limit)
}

/** A page of the history of fills: the newest of what was asked for, as far back as the history reaches. */
export function pastFillPage(world: World, quirks: Quirks, query: PastFillsQuery, at: TimeMs): readonly PastFillRow[] {
  const { category, symbol, limit, startTime, endTime, idLessThan } = query
  const range = {
    from: Math.max(startTime, at - quirks.fillsHistoryDays * dayMs),
    to: Math.min(endTime, at) + 1,
    idBelow: idLessThan === null ? null : idOfLive(idLessThan, quirks),
  }
  const hidden = hiddenFrom('history', quirks, category, symbol, at)
  // Hidden fills shorten the page: the service looks for as many rows, and does not show all of them.
  return world
    .pastFills(category, symbol, range, limit)
    .filter(({ ts }) => !isHidden(hidden, Number(ts) < 1e11 ? Number(ts) * 1000 : Number(ts)))
}

/** The history's own ids begin with 9 where those of the newest fills begin with 1. */
function idOfLive(id: bigint, { fillsHistoryIds }: Quirks): bigint {
  const text = String(id)
  return fillsHistoryIds === 'other' && text.startsWith('9') ? BigInt(`1${text.slice(1)}`) : id
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
      (range.category ?? category) === category &&
      (range.symbol ?? symbol) === symbol &&
      (range.until === undefined || at < range.until),
  )
}

function isHidden(hidden: readonly HiddenFills[], ts: TimeMs): boolean {
  return hidden.some(({ from, to }) => ts >= from && ts < to)
}
