import type { Category } from '../../market/category.js'
import { dayMs, type TimeMs } from '../../market/values.js'
import { mix, mixText, unit } from './hash.js'
import type { Listing, ListingRequest, SymbolType } from './listing.js'
import { coinName, deliverySeries, factsOf, knownCoins, listingWaves, spotMetals, tokenRequest } from './tokens.js'
import type { Traits } from './traits.js'

export type Scale = 'tiny' | 'small' | 'live'
export const scales = ['tiny', 'small', 'live'] as const satisfies readonly Scale[]

/** How busy the instruments are. */
export interface ActivityProfile {
  /** Multiplies every fill rate. Default 1. */
  readonly scale: number
  /** Fills per hour of single instruments, by `CATEGORY:SYMBOL` or by symbol. `scale` does not apply to them. */
  readonly perHour: Readonly<Record<string, number>>
  /** 0: fills come at an even rate, without sweeps; 0.9: most come in bursts. Default 0.5, as in real trading. */
  readonly burstiness: number
}

export const defaultActivity: ActivityProfile = { scale: 1, perHour: {}, burstiness: 0.5 }

interface Shape {
  /** Number of instruments per category. SPOT counts only crypto; `tokens` and `metals` count the others. */
  readonly counts: Readonly<Record<Category, number>>
  /** Fills per hour of the busiest instrument of a category. The n-th busiest has about 1/n of that. */
  readonly busiestPerHour: number
  /** Numbers of stocks and metals among the spot instruments. */
  readonly tokens: number
  readonly metals: number
  readonly waves: number
  readonly deliveries: number
}

const shapes: Readonly<Record<Scale, Shape>> = {
  tiny: {
    counts: { SPOT: 3, MARGIN: 1, 'USDT-FUTURES': 3, 'COIN-FUTURES': 1, 'USDC-FUTURES': 1 },
    busiestPerHour: 3_600,
    tokens: 1,
    metals: 0,
    waves: 0,
    deliveries: 1,
  },
  small: {
    counts: { SPOT: 22, MARGIN: 10, 'USDT-FUTURES': 22, 'COIN-FUTURES': 5, 'USDC-FUTURES': 6 },
    busiestPerHour: 36_000,
    tokens: 8,
    metals: 2,
    waves: 1,
    deliveries: 1,
  },
  live: {
    counts: { SPOT: 549, MARGIN: 320, 'USDT-FUTURES': 769, 'COIN-FUTURES': 20, 'USDC-FUTURES': 50 },
    busiestPerHour: 36_000,
    tokens: 2_813,
    metals: 2,
    waves: 12,
    deliveries: 3,
  },
}

export interface Catalogue {
  readonly listings: readonly Listing[]
  /** Completes one further instrument. */
  complete(request: ListingRequest, marketId: number): Listing
}

/** Creates every instrument that ever exists in this world, including past and future ones. */
export function createCatalogue(
  seed: number,
  scale: Scale,
  activity: ActivityProfile,
  custom: readonly ListingRequest[] | undefined,
): Catalogue {
  const complete = (request: ListingRequest, marketId: number): Listing =>
    completeListing(seed, activity, request, marketId)
  const requests = custom ?? requestsOf(shapes[scale])
  const listings: Listing[] = []
  const spot = new Map<string, Listing>()
  for (const [marketId, request] of requests.entries()) {
    const twin = request.category === 'MARGIN' ? spot.get(request.symbol) : undefined
    const listing = twin ? { ...twin, category: 'MARGIN' as const } : complete(request, marketId)
    if (listing.category === 'SPOT') spot.set(listing.symbol, listing)
    listings.push(listing)
  }
  const order = (listing: Listing): number => mixText(mix(seed, 0x04de4), listing.category + listing.symbol)
  return { listings: listings.toSorted((a, b) => order(a) - order(b)), complete }
}

function requestsOf(shape: Shape): ListingRequest[] {
  const requests: ListingRequest[] = []
  const rate = (rank: number): number => Math.max(6, shape.busiestPerHour / rank ** 0.95)
  for (const category of ['SPOT', 'MARGIN', 'USDT-FUTURES', 'COIN-FUTURES', 'USDC-FUTURES'] as const) {
    for (let rank = 1; rank <= shape.counts[category]; rank++) {
      requests.push({ ...namesOf(category, rank), fillsPerHour: rate(rank) })
    }
  }
  const quiet = rate(12)
  for (let wave = 0; wave < Math.max(1, shape.waves); wave++) {
    requests.push(...listingWaves('SPOT', wave, quiet))
    if (shape.waves > 0) requests.push(...listingWaves('USDT-FUTURES', wave, quiet))
  }
  for (const coin of knownCoins.slice(0, shape.deliveries)) {
    requests.push(...deliverySeries('USDT-FUTURES', coin, rate(8)))
    if (shape.waves > 0) requests.push(...deliverySeries('COIN-FUTURES', coin, rate(8)))
  }
  for (const metal of spotMetals.slice(0, shape.metals)) {
    requests.push({ category: 'SPOT', symbol: `${metal.name}USDT`, ...factsOf(metal), fillsPerHour: rate(20) })
  }
  for (let rank = 1; rank <= shape.tokens; rank++) requests.push(tokenRequest(rank))
  return requests
}

function namesOf(category: Category, rank: number): ListingRequest {
  const coin = coinName(category, rank)
  const request = factsOf(coin)
  const upper = coin.name.toUpperCase()
  // A few instruments have a fixed status, so that clients meet each status.
  const fixedStatus =
    rank % 97 === 31 ? 'limit_close' : rank % 97 === 41 ? 'restrictedAPI' : rank % 97 === 29 ? 'offline' : null
  const extra = { ...(coin.priceDecimals === 18 ? { extraSizeDigits: 20 } : {}), fixedStatus }
  switch (category) {
    case 'SPOT':
    case 'MARGIN':
      return { category, symbol: `${upper}USDT`, quoteCoin: 'USDT', ...request, ...extra }
    case 'USDT-FUTURES':
      return { category, symbol: `${upper}USDT`, quoteCoin: 'USDT', ...request, ...extra }
    case 'USDC-FUTURES':
      return { category, symbol: `${upper}PERP`, quoteCoin: 'USDC', ...request, ...extra }
    case 'COIN-FUTURES':
      return { category, symbol: `${upper}USD_CM`, quoteCoin: 'USD', ...request, ...extra }
  }
}

const firstLaunch = Date.UTC(2019, 0, 7, 10)

function completeListing(seed: number, activity: ActivityProfile, request: ListingRequest, marketId: number): Listing {
  const { category, symbol } = request
  const key = mixText(seed, `${category} ${symbol}`)
  const futures = category.endsWith('FUTURES')
  const baseCoin = request.baseCoin ?? symbol.replace(/(USDT|PERP|USD_CM).*$/, '')
  // A coin has the same base price on spot and futures. Their price paths then differ a little.
  const coinKey = mixText(seed, baseCoin)
  const magnitude = 1 + (mix(coinKey, 1) % 9)
  const basePriceTicks = request.basePriceTicks ?? 20_000 + Math.floor(unit(mix(coinKey, 2)) ** 3 * 1_980_000)
  const priceDecimals = request.priceDecimals ?? magnitude
  // A fill is worth about 500 units of the quote coin.
  const meanSize = category === 'COIN-FUTURES' ? 500 : 500 / (basePriceTicks / 10 ** priceDecimals)
  const sizeDecimals =
    request.sizeDecimals ??
    (category === 'COIN-FUTURES' ? 0 : Math.min(8, Math.max(0, Math.ceil(Math.log10(200 / meanSize)))))
  const launchTime: TimeMs = request.launchTime ?? firstLaunch + (mix(key, 3) % 1_700) * dayMs
  const ownRate = activity.perHour[`${category}:${symbol}`] ?? activity.perHour[symbol]
  const rate = ownRate ?? (request.fillsPerHour ?? 60) * activity.scale
  return {
    baseCoin,
    quoteCoin: category === 'COIN-FUTURES' ? 'USD' : category === 'USDC-FUTURES' ? 'USDC' : 'USDT',
    symbolType: 'crypto' satisfies SymbolType,
    isReality: false,
    isRwa: false,
    contract: !futures ? null : request.deliveryTime ? 'delivery' : 'perpetual',
    extraSizeDigits: 0,
    hasRpi: category !== 'MARGIN' && (marketId < 3 || mix(key, 4) % 5 === 0),
    announceTime: launchTime - 3 * dayMs,
    limitOpenTime: null,
    offTime: null,
    removeTime: null,
    deliveryTime: null,
    fixedStatus: null,
    meanSizeLots: Math.max(2, Math.round(meanSize * 10 ** sizeDecimals)),
    ...ordinary,
    ...request,
    marketId,
    basePriceTicks,
    priceDecimals,
    sizeDecimals,
    launchTime,
    fillsPerHour: request.fixedStatus === 'offline' ? 0 : rate,
  }
}

const ordinary: Traits = {
  outsideTape: null,
  platformTurnover: null,
  fillHours: 'always',
  lastFillBefore: null,
  book: 'live',
  candles: 'every',
  splits: [],
  failsWith: null,
  rowFields: {},
  tickerFields: {},
}
