import type { Category } from '../../market/category.js'
import { mix } from './hash.js'
import type { SymbolType } from './listing.js'

/** A base coin, with the price it moves around; `priceTicks` 0 leaves the price to chance. */
export interface Coin {
  readonly name: string
  readonly symbolType: SymbolType
  readonly isReality: boolean
  readonly priceTicks: number
  readonly priceDecimals: number
}

function crypto(name: string, priceTicks = 0, priceDecimals = 0): Coin {
  return { name, symbolType: 'crypto', isReality: false, priceTicks, priceDecimals }
}

function other(symbolType: SymbolType, name: string, priceTicks: number, priceDecimals: number): Coin {
  return { name, symbolType, isReality: false, priceTicks, priceDecimals }
}

/** A Reality stock token: the base coin is case-sensitive where the symbol is upper case. */
function reality(name: string, priceTicks: number, priceDecimals: number): Coin {
  return { name, symbolType: 'stock', isReality: true, priceTicks, priceDecimals }
}

/** Coins that every category knows, busiest first. */
export const knownCoins: readonly Coin[] = [
  crypto('BTC', 6_123_450, 2),
  crypto('ETH', 312_345, 2),
  crypto('SOL', 1_512_340, 4),
  crypto('XRP', 623_450, 6),
  crypto('DOGE', 123_450, 6),
]

/** The first coins of each category, so that even the smallest market has every kind of instrument. */
const first: Readonly<Record<Category, readonly Coin[]>> = {
  SPOT: [
    ...knownCoins.slice(0, 2),
    reality('rNVDA', 1_312_300, 4),
    // 18 decimals: sixteen significant digits and more, beyond what a double holds.
    crypto('WEI', 1_234_567_890_123_456, 18),
    ...knownCoins.slice(2),
    reality('rTSLA', 2_512_300, 4),
    other('metal', 'XAUT', 261_234, 2),
  ],
  MARGIN: knownCoins,
  'USDT-FUTURES': [
    ...knownCoins.slice(0, 1),
    other('stock', 'TSLA', 25_123, 2),
    other('metal', 'XAU', 261_234, 2),
    ...knownCoins.slice(1),
    other('commodity', 'CL', 71_230, 3),
    crypto('WEI', 1_234_567_890_123_456, 18),
  ],
  'USDC-FUTURES': knownCoins,
  'COIN-FUTURES': knownCoins,
}

/** The coin of an instrument by its rank in its category, starting at 1. Margin has the same coins as spot. */
export function coinName(category: Category, rank: number): Coin {
  const named = first[category]
  const coin = named[rank - 1]
  if (coin) return coin
  // The same later coins in every category, so that one symbol exists in several.
  return crypto(drawnName(rank - named.length))
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
