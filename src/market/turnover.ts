import type { InstrumentKind } from './instrumentKind.js'
import type { Ticker } from './ticker.js'
import type { Decimal } from './values.js'

/**
 * What was traded on this service in 24 hours, in quote coin; null where the ticker does not say. A tokenised stock's
 * `turnover24h` follows a stock exchange elsewhere, so of those only the platform's own turnover counts, and none being given
 * counts as nothing traded. Elsewhere `platformTurnover24h` is unset or zero without meaning anything.
 */
export function turnoverHere(
  kind: InstrumentKind,
  { turnover24h, platformTurnover24h }: Pick<Ticker, 'turnover24h' | 'platformTurnover24h'>,
): Decimal | null {
  if (platformTurnover24h !== null && Number(platformTurnover24h) > 0) return platformTurnover24h
  return kind === 'tokenised_stock' ? '0' : turnover24h
}
