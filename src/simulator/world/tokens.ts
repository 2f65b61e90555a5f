import type { ListingRequest } from './listing.js'
import { mix, unit } from './hash.js'
import { factsOf, tokenName } from './names.js'
import { drawnSplits } from './splits.js'
import type { Traits } from './traits.js'
import { dayMs } from '../../market/values.js'

const firstLaunch = Date.UTC(2024, 0, 2, 14, 30)
const busiestTurnover = 22_000_000_000
const splitsPerYear = 0.03

/** How a token is traded on the platform itself, as far as its public data shows. */
type Trading = Pick<Traits, 'fillHours' | 'lastFillBefore' | 'platformTurnover' | 'book'> & {
  readonly fillsPerHour: number
}

const ordinaryHours = { fillHours: 'weekdays', lastFillBefore: null } as const
const unlimited = { fillHours: 'always', lastFillBefore: null } as const

/** The first tokens are one of each sort, so that small markets have them. */
const firstTrading: readonly Trading[] = [
  // The most claimed volume of all, a turnover that hardly shows in fills, and the newest of those a day old.
  { ...unlimited, fillsPerHour: 0.035, platformTurnover: 1_729_836.5035, book: 'empty' },
  { ...ordinaryHours, fillsPerHour: 12, platformTurnover: 'counted', book: 'empty' },
  { ...unlimited, fillsPerHour: 0, platformTurnover: 'empty', book: 'empty' },
  { ...ordinaryHours, fillsPerHour: 20, platformTurnover: 'counted', book: 'live' },
  { ...unlimited, fillsPerHour: 0, platformTurnover: 'zero', book: 'empty' },
  { ...ordinaryHours, fillsPerHour: 6, lastFillBefore: Date.UTC(2026, 5, 11), platformTurnover: 'zero', book: 'empty' },
]

/**
 * A Reality token by the rank of its stock abroad. Its ticker follows the tape there; here one in seven is traded in the
 * hours of that exchange, three in ten now and then, and the others not at all or not any more.
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
