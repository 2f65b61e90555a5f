import { z } from 'zod'
import { instrumentKinds } from '../../market/instrument.js'
import { category, decimal, orNull, symbol, time } from './parameters.js'

export const fills = z
  .array(
    z.strictObject({
      ts: time("The service's time of the fill."),
      execId: z.string().describe("The service's number of the fill."),
      side: z.enum(['buy', 'sell']).describe('Side of the taker.'),
      price: decimal('Price.'),
      size: decimal('Size.'),
    }),
  )
  .describe('The newest fills of the last hour, the newest first; at most 15.')

export const market = z.strictObject({
  instruments: z.array(
    z.strictObject({
      category,
      symbol,
      quoteCoin: orNull(z.string().describe('Coin that prices and turnover are in.')),
      kind: z.enum(instrumentKinds).describe('What it stands for, derived from the specification.'),
      ts: time("The service's time of the newest ticker."),
      lastPrice: orNull(decimal('Last price.')),
      price24hPcnt: orNull(decimal('Change in 24 hours, a fraction.')),
      turnover: orNull(decimal('Turnover here in 24 hours, quote coin.')),
      spreadBps: orNull(decimal('Spread between the best bid and ask, basis points.')),
      fundingRate: orNull(decimal('Funding rate, a fraction.')),
    }),
  ),
})

export type MarketResponse = z.infer<typeof market>
