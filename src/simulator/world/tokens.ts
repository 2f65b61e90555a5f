import type { Category } from '../../market/category.js'
import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import { mix, unit } from './hash.js'
import type { Listing, ListingRequest, SymbolType } from './listing.js'
import { drawnSplits, type Traits } from './traits.js'

/** A base coin, with the price that it moves around. If `priceTicks` is 0, the price is drawn. */
interface Coin {
  readonly name: string
  readonly symbolType: SymbolType
  readonly isReality: boolean
  readonly isRwa: boolean
  readonly priceTicks: number
  readonly priceDecimals: number
}

function crypto(name: string, priceTicks = 0, priceDecimals = 0): Coin {
  return { name, symbolType: 'crypto', isReality: false, isRwa: false, priceTicks, priceDecimals }
}

/** Makes a stock, metal or commodity. `symbolType` is the type in its row, which is sometimes wrong. */
function other(symbolType: SymbolType, name: string, priceTicks = 0, priceDecimals = 0): Coin {
  return { name, symbolType, isReality: false, isRwa: true, priceTicks, priceDecimals }
}

/** Makes a Reality stock token. Its base coin begins with a small r, although its symbol is in upper case. */
function reality(stock: string, symbolType: SymbolType, priceTicks = 0, priceDecimals = 0): Coin {
  return { name: `r${stock}`, symbolType, isReality: true, isRwa: true, priceTicks, priceDecimals }
}

/** Coins that every category has, busiest first. */
export const knownCoins: readonly Coin[] = [
  crypto('BTC', 6_123_450, 2),
  crypto('ETH', 312_345, 2),
  crypto('SOL', 1_512_340, 4),
  crypto('XRP', 623_450, 6),
  crypto('DOGE', 123_450, 6),
]

// This price has 18 decimals, with more significant digits than a double holds.
const wei = crypto('WEI', 1_234_567_890_123_456, 18)

/** The first coins of each category, so that even the smallest market has several kinds of instruments. */
const first: Readonly<Record<Category, readonly Coin[]>> = {
  SPOT: [
    ...knownCoins.slice(0, 2),
    wei,
    ...knownCoins.slice(2),
    // This symbol begins with R like those of tokens, but is no token.
    crypto('RESOLV', 71_230, 6),
    crypto('龙虾', 31_230, 7),
    crypto('牛来', 11_230, 7),
  ],
  MARGIN: knownCoins,
  'USDT-FUTURES': [
    ...knownCoins.slice(0, 1),
    other('stock', 'NVDA', 18_123, 2),
    other('metal', 'XAU', 261_234, 2),
    ...knownCoins.slice(1),
    other('commodity', 'CL', 71_230, 3),
    wei,
    other('stock', 'TSLA', 25_123, 2),
    // A stock whose row says that it is crypto.
    other('crypto', 'HPQ', 2_512, 2),
    crypto('龙虾', 31_230, 7),
    crypto('牛来', 11_230, 7),
    crypto('RESOLV', 71_230, 6),
  ],
  'USDC-FUTURES': knownCoins,
  'COIN-FUTURES': knownCoins,
}

/** One in this many of the later USDT futures is on a stock. */
const stockPerpetualEvery = 12

/** Returns the coin of an instrument by its rank in its category, from 1. Tokens and metals of spot do not count. */
export function coinName(category: Category, rank: number): Coin {
  const named = first[category]
  const coin = named[rank - 1]
  if (coin) return coin
  const number = rank - named.length
  // Later coins have the same names in every category, so that one symbol exists in several categories.
  // The stocks exist as spot tokens, too.
  return category === 'USDT-FUTURES' && number % stockPerpetualEvery === 0
    ? other('stock', stockName(number / stockPerpetualEvery + 8))
    : crypto(drawnName(number))
}

export const spotMetals: readonly Coin[] = [
  { ...other('metal', 'XAUT', 261_234, 2), isRwa: false },
  { ...other('metal', 'PAXG', 262_345, 2), isRwa: false },
]

const knownStocks = ['NVDA', 'SPY', 'QQQ', 'TSLA', 'HPQ', 'AAPL', 'MSFT', 'AMZN']
const knownStockPrices: Readonly<Record<string, readonly [ticks: number, decimals: number]>> = {
  NVDA: [1_812_300, 4],
  SPY: [66_123, 2],
  QQQ: [60_123, 2],
  TSLA: [2_512_300, 4],
}

/** Returns a Reality token by the rank of its stock on the exchange abroad, from 1. */
function tokenName(rank: number): Coin {
  const stock = stockName(rank)
  // `symbolType` is unreliable: for some tokens it says crypto.
  const symbolType = stock === 'HPQ' || rank % 13 === 9 ? 'crypto' : 'stock'
  return reality(stock, symbolType, ...(knownStockPrices[stock] ?? []))
}

/** Returns the name of a stock. After the known stocks, it is a name that no crypto has. */
function stockName(rank: number): string {
  return knownStocks[rank - 1] ?? `Q${drawnName(rank)}`
}

/** Returns the fields of a listing that follow from its coin, with the price if the coin has one. */
export function factsOf(coin: Coin): Partial<Listing> {
  const { name, symbolType, isReality, isRwa, priceTicks, priceDecimals } = coin
  const price = priceTicks > 0 ? { basePriceTicks: priceTicks, priceDecimals } : {}
  return { baseCoin: name, symbolType, isReality, isRwa, ...price }
}

const consonants = 'BCDFGHKLMNPRSTVZ'
const vowels = 'AEIOU'

/** Returns a name of four letters, different for each number below 6,400. Names beyond have a further digit. */
function drawnName(number: number): string {
  const shuffled = (number * 2_741 + 17) % 6_400
  const pick = (letters: string, index: number): string => letters.charAt(index % letters.length)
  const name =
    pick(consonants, shuffled) +
    pick(vowels, Math.floor(shuffled / 16)) +
    pick(consonants, Math.floor(shuffled / 80)) +
    pick(vowels, Math.floor(shuffled / 1_280))
  return number < 6_400 ? name : `${name}${mix(number, 7) % 10}`
}

const calendarStart = Date.UTC(2024, 0, 1)
const calendarEnd = Date.UTC(2031, 0, 1)

/**
 * Returns instruments that come and go: one is listed every 45 days, and each trades for 100 days. So at any moment
 * some were listed recently, some are about to disappear, and some have disappeared.
 */
export function listingWaves(
  category: 'SPOT' | 'USDT-FUTURES',
  wave: number,
  fillsPerHour: number,
): readonly ListingRequest[] {
  const requests: ListingRequest[] = []
  const shift = (category === 'SPOT' ? 0 : 22) + wave * 7
  for (let turn = 0; ; turn++) {
    const launchTime = calendarStart + (turn * 45 + (shift % 45)) * dayMs + 10 * hourMs
    if (launchTime > calendarEnd) return requests
    const offTime = launchTime + 100 * dayMs
    // The prefix N and a drawn name give symbols that permanent instruments do not have.
    const baseCoin = `N${drawnName(turn * 16 + wave)}`
    requests.push({
      category,
      symbol: `${baseCoin}USDT`,
      baseCoin,
      quoteCoin: 'USDT',
      launchTime,
      limitOpenTime: offTime - 2 * dayMs,
      offTime,
      removeTime: offTime + dayMs,
      fillsPerHour,
    })
  }
}

/** Returns quarterly futures: two trade at any time. Each is delivered on a quarter's last Friday at 08:00 UTC. */
export function deliverySeries(
  category: 'USDT-FUTURES' | 'COIN-FUTURES',
  coin: Coin,
  fillsPerHour: number,
): readonly ListingRequest[] {
  const requests: ListingRequest[] = []
  const letters = 'HMUZ'
  for (let year = 2024; year <= 2031; year++) {
    for (let quarter = 0; quarter < 4; quarter++) {
      const deliveryTime = lastFriday(year, quarter * 3 + 2)
      const code = `${letters.charAt(quarter)}${year % 100}`
      requests.push({
        category,
        symbol: category === 'COIN-FUTURES' ? `${coin.name}CM${code}` : `${coin.name}USDT${code}`,
        baseCoin: coin.name,
        quoteCoin: category === 'COIN-FUTURES' ? 'USD' : 'USDT',
        basePriceTicks: coin.priceTicks,
        priceDecimals: coin.priceDecimals,
        contract: 'delivery',
        launchTime: lastFriday(year, quarter * 3 - 4),
        deliveryTime,
        offTime: deliveryTime,
        removeTime: deliveryTime + dayMs,
        fillsPerHour,
      })
    }
  }
  return requests
}

function lastFriday(year: number, month: number): TimeMs {
  const lastDay = new Date(Date.UTC(year, month + 1, 0, 8))
  return lastDay.getTime() - ((lastDay.getUTCDay() + 2) % 7) * dayMs
}

const firstLaunch = Date.UTC(2024, 0, 2, 14, 30)
const busiestTurnover = 22_000_000_000
const splitsPerYear = 0.03

/** How a token is traded on the platform itself, as its public data shows. */
type Trading = Pick<Traits, 'fillHours' | 'lastFillBefore' | 'platformTurnover' | 'book'> & {
  readonly fillsPerHour: number
}

const ordinaryHours = { fillHours: 'weekdays', lastFillBefore: null } as const
const unlimited = { fillHours: 'always', lastFillBefore: null } as const

/** Trading of the first tokens: one of each sort, so that small markets have all sorts. */
const firstTrading: readonly Trading[] = [
  // This token claims the largest volume of all and has a turnover that hardly shows in fills, about one a day.
  { ...unlimited, fillsPerHour: 0.035, platformTurnover: 1_729_836.5035, book: 'empty' },
  { ...ordinaryHours, fillsPerHour: 12, platformTurnover: 'counted', book: 'empty' },
  { ...unlimited, fillsPerHour: 0, platformTurnover: 'empty', book: 'empty' },
  { ...ordinaryHours, fillsPerHour: 20, platformTurnover: 'counted', book: 'live' },
  { ...unlimited, fillsPerHour: 0, platformTurnover: 'zero', book: 'empty' },
  { ...ordinaryHours, fillsPerHour: 6, lastFillBefore: Date.UTC(2026, 5, 11), platformTurnover: 'zero', book: 'empty' },
]

/**
 * Returns a Reality token by the rank of its stock abroad. Its ticker follows the tape there. Here, one token in seven
 * is traded in the hours of that exchange, and three in ten now and then. The others are not, or no longer, traded.
 */
export function tokenRequest(rank: number): ListingRequest {
  const key = mix(rank, 0x70c3)
  const coin = tokenName(rank)
  // Turnover falls slowly with the rank. All tokens together claim about 900 billion.
  const turnoverPerDay = busiestTurnover / rank ** 0.65
  return {
    category: 'SPOT',
    symbol: `${coin.name.toUpperCase()}USDT`,
    quoteCoin: 'USDT',
    ...factsOf(coin),
    launchTime: firstLaunch + (rank <= firstTrading.length ? 0 : (mix(key, 1) % 540) * dayMs),
    hasRpi: false,
    outsideTape: { turnoverPerDay, hours: 'weekdays' },
    candles: 'traded',
    splits: drawnSplits(key, rank === 4 ? 1 : splitsPerYear),
    ...(firstTrading[rank - 1] ?? drawnTrading(key)),
  }
}

function drawnTrading(key: number): Trading {
  const sort = unit(mix(key, 2))
  const share = unit(mix(key, 3))
  const book = unit(mix(key, 4)) < (sort < 0.15 ? 0.6 : 0.08) ? 'live' : 'empty'
  if (sort < 0.15) return { ...ordinaryHours, fillsPerHour: 0.5 * 40 ** share, platformTurnover: 'counted', book }
  if (sort < 0.45) return { ...unlimited, fillsPerHour: 0.02 * 20 ** share, platformTurnover: 'counted', book }
  const platformTurnover = mix(key, 5) % 2 === 0 ? 'empty' : 'zero'
  if (sort >= 0.55) return { ...unlimited, fillsPerHour: 0, platformTurnover, book }
  const lastFillBefore = Date.UTC(2025, 6, 1) + Math.floor(share * 365) * dayMs
  return { ...ordinaryHours, fillsPerHour: 0.5 * 40 ** share, lastFillBefore, platformTurnover, book }
}
