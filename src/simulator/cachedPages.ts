import type { Category, TradedCategory } from '../market/category.js'
import type { TimeMs } from '../market/values.js'
import type { ResponseData } from './responseData.js'
import { takeTurns } from './turns.js'
import { isShown } from './world/listing.js'
import type { Quirks } from './world/quirks.js'
import type { World } from './world/world.js'

/** Whole lists of a category. They are long, so several requests share one. */
export interface CachedPages {
  instruments(category: Category, at: TimeMs): ResponseData
  tickers(category: TradedCategory, at: TimeMs): Promise<ResponseData>
}

/** A page that is valid in a half-open range of time, as long as the stamp is the same. */
interface InstrumentPage {
  readonly page: ResponseData
  readonly stamp: string
  readonly from: TimeMs
  readonly until: TimeMs
}

export function createCachedPages(world: World, quirks: () => Quirks): CachedPages {
  const instrumentPages = new Map<Category, InstrumentPage>()
  const tickerPages = new Map<TradedCategory, { readonly page: Promise<ResponseData>; readonly stamp: string }>()
  let lastTickerPage: Promise<unknown> = Promise.resolve()
  let quirkStamp = { quirks: quirks(), number: 0 }
  const stampOf = (): string => {
    if (quirks() !== quirkStamp.quirks) quirkStamp = { quirks: quirks(), number: quirkStamp.number + 1 }
    return `${quirkStamp.number}:${world.version()}`
  }
  return {
    instruments(category, at) {
      const known = instrumentPages.get(category)
      const stamp = stampOf()
      if (known && known.stamp === stamp && at >= known.from && at < known.until) return known.page
      const data = world.instruments(category, at)
      const page = { data, text: Buffer.from(JSON.stringify(data)) }
      instrumentPages.set(category, { page, stamp, from: at, until: world.nextChange(category, at) })
      return page
    },
    tickers(category, at) {
      const stamp = `${stampOf()}:${Math.floor(at / 500)}`
      const known = tickerPages.get(category)
      if (known?.stamp === stamp) return known.page
      // Only one page is computed at a time, because slices of several would add up within a turn of the event loop.
      const page = lastTickerPage.then(() => tickerPage(world, category, at))
      lastTickerPage = page.catch(() => undefined)
      tickerPages.set(category, { page, stamp })
      return page
    },
  }
}

/** Resolves to all tickers of a category. It may have thousands, so other requests get their turn in between. */
async function tickerPage(world: World, category: TradedCategory, at: TimeMs): Promise<ResponseData> {
  const rows: unknown[] = []
  const texts: string[] = []
  const giveTurn = takeTurns()
  for (const listing of world.listings()) {
    if (listing.category !== category || !isShown(listing, at)) continue
    const row = world.ticker(category, listing.symbol, at)
    if (!row) continue
    rows.push(row)
    texts.push(JSON.stringify(row))
    await giveTurn()
  }
  return { data: rows, text: Buffer.from(`[${texts.join(',')}]`) }
}
