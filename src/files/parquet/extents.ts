import type { QueryColumn, QueryRow } from '../../db/readOnlyQuery.js'
import type { DecimalExtent } from './decimalShape.js'

export function isDecimal(type: string): boolean {
  return type === 'numeric' || type === '_numeric'
}

/** The list of a SELECT whose one row says what room the decimals among these columns need; empty when there are none. */
export function extentList(columns: readonly QueryColumn[]): string {
  const decimals = columns.filter(({ type }) => isDecimal(type))
  const list = decimals.flatMap(({ name, type }) => {
    const column = `"${name.replaceAll('"', '""')}"`
    const maxOf = (expression: (value: string) => string) =>
      type === 'numeric'
        ? `max(${expression(column)})`
        : `max((select max(${expression('element_')}) from unnest(${column}) as element_))`
    return [maxOf((value) => `abs(${value})`), maxOf((value) => `scale(trim_scale(${value}))`)]
  })
  return list.join(', ')
}

/** What that row says, by column. */
export function extentsIn(row: QueryRow, columns: readonly QueryColumn[]): Map<string, DecimalExtent> {
  const decimals = columns.filter(({ type }) => isDecimal(type))
  return new Map(decimals.map(({ name }, i) => [name, extentOf(row[i * 2] ?? null, row[i * 2 + 1] ?? null)]))
}

function extentOf(max: string | null, scale: string | null): DecimalExtent {
  // NaN and infinities have no digits; they do not fit any decimal type.
  const digits = max === null ? 0 : /^\d/.test(max) ? max.split('.')[0]?.replace(/^0$/, '').length : 99
  return { digits: digits ?? 0, scale: Number(scale ?? 0) }
}
