import { dayMs, hourMs, type TimeMs } from '../../market/values.js'
import type { ListingRequest } from './listing.js'
import { type Coin, drawnName } from './names.js'

const calendarStart = Date.UTC(2024, 0, 1)
const calendarEnd = Date.UTC(2031, 0, 1)

/**
 * Instruments that come and go for ever: a new one every 45 days, each trades for 100 days. So at any moment some were
 * listed within the recorded history, some are about to disappear, and some have disappeared.
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
    // Names from a part of the series that the permanent instruments do not reach.
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

/** Quarterly futures: two alive at any time, delivered on the last Friday of a quarter at 08:00 UTC. */
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
