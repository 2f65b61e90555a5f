import { type Candle, closeTime } from '../../market/candle.js'
import { type Category, type InstrumentKey, tradedCategories } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'
import type { Batch, FoundGap } from '../../ledger/batch/batch.js'

const reason = 'dropped because the spool was full'

/**
 * What is missing when these batches are given up, as batches without rows, one for each stream. Fills are left out: the
 * next response tells whether it follows on from the last one that was stored.
 */
export function gapsOfDropped(batches: readonly Batch[]): Batch[] {
  const byStream = new Map<StreamName, { readonly last: Batch; readonly gaps: Map<string, FoundGap> }>()
  for (const batch of batches) {
    const found = byStream.get(batch.stream) ?? { last: batch, gaps: new Map<string, FoundGap>() }
    byStream.set(batch.stream, { last: batch, gaps: found.gaps })
    for (const gap of batch.gaps) {
      // Gaps that were noted before are given on, one for each series, however often that happens; others stay as they are.
      if (gap.reason === reason) widen(found.gaps, gap)
      else found.gaps.set(JSON.stringify(gap), gap)
    }
    if (batch.rows.length > 0) for (const gap of gapsOf(batch)) widen(found.gaps, gap)
  }
  return [...byStream.values()].flatMap(({ last, gaps }) =>
    gaps.size === 0 ? [] : [{ ...last, rows: [], rejected: [], proven: [], gaps: [...gaps.values()], isPart: true }],
  )
}

function widen(gaps: Map<string, FoundGap>, gap: FoundGap): void {
  const { category, symbol, type, interval } = gap
  const key = [category, symbol, type, interval].join(' ')
  const { from, to } = gaps.get(key)?.range ?? gap.range
  gaps.set(key, { ...gap, range: { from: Math.min(from, gap.range.from), to: Math.max(to, gap.range.to) } })
}

function gapsOf(batch: Batch): FoundGap[] {
  const range = { from: batch.requestTime, to: batch.requestTime + 1 }
  switch (batch.stream) {
    case 'fills':
      return []
    case 'candles': {
      const rows = batch.rows as readonly Candle[]
      return rows.map(({ category, symbol, type, interval, openTime }) => {
        const candle = { from: openTime, to: closeTime(openTime, interval) }
        return { category, symbol, type, interval, range: candle, reason, state: 'open' }
      })
    }
    case 'order_books':
    case 'rpi_order_books': {
      const { category, symbol } = batch.target as InstrumentKey
      return [{ category, symbol, range, reason }]
    }
    case 'tickers':
    case 'instruments': {
      const { category } = batch.target as { readonly category: Category }
      return [{ category, symbol: '*', range, reason }]
    }
    case 'rpi_symbols':
      return tradedCategories.map((category) => ({ category, symbol: '*', range, reason }))
  }
}
