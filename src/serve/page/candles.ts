import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import { intervalMs, type Interval } from '../../market/candle.js'
import { isTradedCategory } from '../../market/category.js'
import type { Question } from '../api/endpoints.js'
import { ask, useResponse } from './loaded.js'
import { type Candle, mergeCandles, widened, withTrades } from './chart/model.js'
import type { View } from './view.js'

const pageSize = 500
/** Limits of the loaded candles. Candles beyond them are dropped, and loaded again when the visitor returns to them. */
const maxCandles = 5000
const maxNewerPages = 4

type Page = MarketResponses['candles']
type LiveEvent = MarketResponses['event']

interface Loaded {
  readonly key: string
  readonly candles: readonly Candle[]
  readonly covered: Page['covered']
  readonly gaps: Page['gaps']
  readonly source: Interval
  readonly hasOlder: boolean
  /** True if the newest candle is loaded. Then live events update the candles. */
  readonly hasNewest: boolean
}

/** Loads the candles around the view's time, and more on either side on request. */
export function useCandles({ category, symbol, type, interval, at }: View, live: LiveEvent | null) {
  const isTraded = category !== null && symbol !== null && isTradedCategory(category)
  const lengthMs = intervalMs[interval]
  const series = isTraded ? { category, symbol, type, interval, limit: pageSize } : null
  // At an opening time, so that no minute of the last candle is cut off.
  const before = at === null ? undefined : (Math.ceil(at / lengthMs) + pageSize / 2) * lengthMs
  const question = series === null ? null : { ...series, before }
  const key = JSON.stringify(question)
  const { response, error } = useResponse('/api/candles', question, { everyMs: at === null ? 60_000 : undefined })
  const [loaded, setLoaded] = useState<Loaded | null>(null)
  const current = loaded?.key === key ? loaded : null
  const change = (next: (before: Loaded) => Loaded) => setLoaded((state) => (state?.key === key ? next(state) : state))

  useEffect(() => {
    if (response === null) return
    const hasNewest = before === undefined || before >= Date.now()
    setLoaded((state) => (state?.key === key ? refreshed(state, response) : { key, ...response, hasNewest }))
  }, [key, response])
  useEffect(() => {
    if (live === null || live.candles.length === 0) return
    change((state) =>
      state.hasNewest ? { ...state, candles: mergeCandles([...state.candles, ...live.candles]) } : state,
    )
  }, [key, live])

  const isLoading = useRef(false)
  /** Runs one load at a time. After a failure, a notice appears, and scrolling tries again. */
  const load = async (run: () => Promise<void>) => {
    if (isLoading.current) return
    isLoading.current = true
    await run().catch(() => undefined)
    isLoading.current = false
  }
  const loadOlder = () =>
    load(async () => {
      const oldest = current?.candles[0]
      if (series === null || oldest === undefined || current?.hasOlder !== true) return
      const older = await ask('/api/candles', { ...series, before: oldest.openTime })
      change((state) => withOlder(state, older))
    })
  const loadNewer = () =>
    load(async () => {
      const newest = current?.candles.at(-1)
      if (series === null || newest === undefined || current?.hasNewest !== false) return
      const newer = await askNewer(series, newest.openTime, lengthMs)
      change((state) => withNewer(state, newer))
    })
  useEffect(() => {
    // The server rolls up a limited number of minutes at a time. The rest of the page is loaded at once.
    if (current !== null && current.candles.length < pageSize) void loadOlder()
  }, [loaded])

  const shown = useRef<{ readonly key: string; readonly newest: Candle | undefined }>({ key, newest: undefined })
  const candles = useMemo(() => {
    if (current === null || !current.hasNewest || type !== 'market' || live === null) return current?.candles ?? []
    const { fills, ticker } = live
    const ofTicker = ticker?.lastPrice == null ? [] : [{ ts: ticker.ts, price: ticker.lastPrice }]
    const before = shown.current.key === key ? shown.current.newest : undefined
    const followed = widened(withTrades(current.candles, [...fills, ...ofTicker], lengthMs), before)
    shown.current = { key, newest: followed.at(-1) }
    return followed
  }, [current, live, type, lengthMs])
  const reload = () => setLoaded(response === null ? null : { key, ...response, hasNewest: true })
  return { isTraded, error, key, current, candles, loadOlder, loadNewer, reload }
}

type Series = Omit<Question<'/api/candles'>, 'before'>

/** Loads the next pages after a candle, ascending. The time after the candle may be empty, or hold many pages. */
async function askNewer(
  series: Series,
  newest: number,
  lengthMs: number,
): Promise<{ readonly pages: readonly Page[]; readonly hasNewest: boolean }> {
  let reachMs = (pageSize + 1) * lengthMs
  let page = await ask('/api/candles', { ...series, before: newest + reachMs })
  while ((page.candles.at(-1)?.openTime ?? 0) <= newest && newest + reachMs < Date.now()) {
    reachMs *= 8
    page = await ask('/api/candles', { ...series, before: newest + reachMs })
  }
  const pages = [page]
  for (;;) {
    const first = page.candles[0]
    if (first === undefined || first.openTime <= newest + lengthMs || !page.hasOlder) break
    page = await ask('/api/candles', { ...series, before: first.openTime })
    pages.unshift(page)
  }
  // With more pages, the limit on candles would drop the candle where they begin.
  const hasNewest = pages.length <= maxNewerPages && newest + reachMs >= Date.now()
  return { pages: pages.slice(0, maxNewerPages), hasNewest }
}

function refreshed(before: Loaded, page: Page): Loaded {
  if (!before.hasNewest) return before
  const oldest = page.candles[0]?.openTime ?? Number.POSITIVE_INFINITY
  // Older candles stay. Their gaps were found when the candles were loaded.
  const older = {
    candles: before.candles.filter(({ openTime }) => openTime < oldest),
    covered: before.covered.filter(({ from }) => from < oldest),
    gaps: before.gaps.filter(({ from }) => from < oldest),
    source: before.source,
  }
  return { ...before, ...joined([older, page]) }
}

function withOlder(before: Loaded, page: Page): Loaded {
  const { candles, ...proof } = joined([page, before])
  const hasNewest = before.hasNewest && candles.length <= maxCandles
  return { ...before, ...proof, candles: candles.slice(0, maxCandles), hasOlder: page.hasOlder, hasNewest }
}

function withNewer(before: Loaded, { pages, hasNewest }: Awaited<ReturnType<typeof askNewer>>): Loaded {
  const { candles, ...proof } = joined([before, ...pages])
  const hasOlder = before.hasOlder || candles.length > maxCandles
  return { ...before, ...proof, candles: candles.slice(-maxCandles), hasOlder, hasNewest }
}

/** Joins stretches of candles, the oldest first. If any are rolled up from minutes, all count as rolled up. */
function joined(parts: readonly Omit<Loaded, 'key' | 'hasOlder' | 'hasNewest'>[]) {
  return {
    candles: mergeCandles(parts.flatMap(({ candles }) => candles)),
    covered: parts.flatMap(({ covered }) => covered),
    gaps: parts.flatMap(({ gaps }) => gaps),
    source: parts.find(({ source }) => source === '1m')?.source ?? parts[0]?.source ?? '1m',
  }
}
