import type { Category } from '../../market/category.js'
import { mix } from './hash.js'
import type { Listing, SymbolType } from './listing.js'

/** A base coin, with the price it moves around; `priceTicks` 0 leaves the price to chance. */
export interface Coin {
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

/** A stock, metal or commodity; `symbolType` is what the row says, and is sometimes wrong. */
function other(symbolType: SymbolType, name: string, priceTicks = 0, priceDecimals = 0): Coin {
  return { name, symbolType, isReality: false, isRwa: true, priceTicks, priceDecimals }
}

/** A Reality stock token: the base coin is case-sensitive where the symbol is upper case. */
function reality(stock: string, symbolType: SymbolType, priceTicks = 0, priceDecimals = 0): Coin {
  return { name: `r${stock}`, symbolType, isReality: true, isRwa: true, priceTicks, priceDecimals }
}

/** Coins that every category knows, busiest first. */
export const knownCoins: readonly Coin[] = [
  crypto('BTC', 6_123_450, 2),
  crypto('ETH', 312_345, 2),
  crypto('SOL', 1_512_340, 4),
  crypto('XRP', 623_450, 6),
  crypto('DOGE', 123_450, 6),
]

// 18 decimals: sixteen significant digits and more, beyond what a double holds.
const wei = crypto('WEI', 1_234_567_890_123_456, 18)

/** The first coins of each category, so that even the smallest market has several kinds of instruments. */
const first: Readonly<Record<Category, readonly Coin[]>> = {
  SPOT: [
    ...knownCoins.slice(0, 2),
    wei,
    ...knownCoins.slice(2),
    // Begins with R like the tokens, and is none.
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

/** The coin of an instrument by its rank in its category, starting at 1; tokens and metals of spot are not among them. */
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

/** The metals of spot; further ones have drawn names. */
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

/** A Reality token by the rank of its stock on the exchange abroad, starting at 1. */
export function tokenName(rank: number): Coin {
  const stock = stockName(rank)
  // `symbolType` is not to be relied on: of some it says crypto.
  const symbolType = stock === 'HPQ' || rank % 13 === 9 ? 'crypto' : 'stock'
  return reality(stock, symbolType, ...(knownStockPrices[stock] ?? []))
}

/** Beyond those that are known, a name that no crypto has. */
function stockName(rank: number): string {
  return knownStocks[rank - 1] ?? `Q${drawnName(rank)}`
}

/** Listing fields that follow from the coin of an instrument. They include the price if the coin has one. */
export function factsOf(coin: Coin): Partial<Listing> {
  const { name, symbolType, isReality, isRwa, priceTicks, priceDecimals } = coin
  const price = priceTicks > 0 ? { basePriceTicks: priceTicks, priceDecimals } : {}
  return { baseCoin: name, symbolType, isReality, isRwa, ...price }
}

const consonants = 'BCDFGHKLMNPRSTVZ'
const vowels = 'AEIOU'

/** A name of four letters, different for each number below 6,400 (a digit is added beyond). */
export function drawnName(number: number): string {
  const shuffled = (number * 2_741 + 17) % 6_400
  const pick = (letters: string, index: number): string => letters.charAt(index % letters.length)
  const name =
    pick(consonants, shuffled) +
    pick(vowels, Math.floor(shuffled / 16)) +
    pick(consonants, Math.floor(shuffled / 80)) +
    pick(vowels, Math.floor(shuffled / 1_280))
  return number < 6_400 ? name : `${name}${mix(number, 7) % 10}`
}
