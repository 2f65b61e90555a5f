import type { Category } from '../../market/category.js'
import type { TimeMs } from '../../market/values.js'
import type { Catalogue } from './catalogue.js'
import { changeTimes, isShown, type Listing, type ListingRequest } from './listing.js'

/** The instruments of a world. Tests list more of them, and change them. */
export interface Listings {
  /** Returns every instrument that ever exists. */
  listings(): readonly Listing[]
  find(category: Category, symbol: string): Listing | undefined
  /** Returns an instrument. Throws if there is none of the name. */
  need(category: Category, symbol: string): Listing
  /** Returns the instruments of a category that the service lists at a time. */
  shown(category: Category, at: TimeMs): readonly Listing[]
  /** Returns the next moment after `at` at which a row of an instrument of the category changes. */
  nextChange(category: Category, at: TimeMs): TimeMs
  /** Adds an instrument, or replaces the instrument of the same name. */
  put(request: ListingRequest): Listing
  /** Changes an instrument that exists. */
  amend(category: Category, symbol: string, change: Partial<Listing>): void
  /** Returns the number of changes made with `put` and `amend`. */
  version(): number
}

export function createListings(catalogue: Catalogue): Listings {
  const listings = [...catalogue.listings]
  const byKey = new Map(listings.map((listing) => [`${listing.category} ${listing.symbol}`, listing]))
  let nextMarketId = listings.length
  let version = 0
  const find = (category: Category, symbol: string): Listing | undefined => byKey.get(`${category} ${symbol}`)
  const need = (category: Category, symbol: string): Listing => {
    const listing = find(category, symbol)
    if (listing) return listing
    throw new Error(`the simulated market has no ${category} ${symbol}: ask world.listings() for what there is`)
  }
  const replace = (old: Listing | undefined, listing: Listing): void => {
    if (old) listings[listings.indexOf(old)] = listing
    else listings.push(listing)
    byKey.set(`${listing.category} ${listing.symbol}`, listing)
    version++
  }
  return {
    listings: () => listings,
    find,
    need,
    shown: (category, at) => listings.filter((listing) => listing.category === category && isShown(listing, at)),
    nextChange(category, at) {
      let next = Number.POSITIVE_INFINITY
      for (const listing of listings) {
        if (listing.category !== category) continue
        for (const time of changeTimes(listing)) if (time > at && time < next) next = time
      }
      return next
    },
    put(request) {
      const old = find(request.category, request.symbol)
      const listing = catalogue.complete(request, old?.marketId ?? nextMarketId++)
      replace(old, listing)
      return listing
    },
    amend(category, symbol, change) {
      const old = need(category, symbol)
      replace(old, { ...old, ...change })
    },
    version: () => version,
  }
}
