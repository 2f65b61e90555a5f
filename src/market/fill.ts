import type { Category } from './category.js'
import type { Decimal, Extra, TimeMs } from './values.js'

/** A public fill. `side` is the taker's; `size` is in quote coin for COIN-FUTURES and in base coin otherwise. */
export interface Fill {
  readonly category: Category
  readonly symbol: string
  readonly ts: TimeMs
  readonly execId: string
  readonly execLinkId: string | null
  readonly side: 'buy' | 'sell'
  readonly price: Decimal
  readonly size: Decimal
  readonly isRpi: boolean | null
  readonly receivedAt: TimeMs
  readonly extra: Extra
}

/** The service shows at most this many fills as the newest ones. */
export const fillsPerPage = 100
