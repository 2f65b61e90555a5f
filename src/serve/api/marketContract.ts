import { z } from 'zod'
import { instrumentKinds } from '../../market/instrument.js'
import { candleType, category, count, decimal, interval, orNull, stream, symbol, time } from './parameters.js'

const range = z.strictObject({ from: time('Start, inclusive.'), to: time('End, exclusive.') })

const seriesKey = {
  stream,
  category,
  symbol,
  type: orNull(candleType.describe('Candles: their type; null otherwise.')),
  interval: orNull(interval.describe('Candles: their interval; null otherwise.')),
}

const fills = z
  .array(
    z.strictObject({
      ts: time("The service's time of the fill."),
      execId: z.string().describe("The service's number of the fill."),
      side: z.enum(['buy', 'sell']).describe('Side of the taker.'),
      price: decimal('Price.'),
      size: decimal('Size.'),
    }),
  )
  .describe('The newest fills of the last hour, or before `at`, the newest first; at most 30.')

const instrumentRow = z.strictObject({
  category,
  symbol,
  baseCoin: orNull(z.string().describe('Base coin.')),
  quoteCoin: orNull(z.string().describe('Quote coin.')),
  status: orNull(z.string().describe('Status, as the service says.')),
  kind: z.enum(instrumentKinds).describe('What it stands for, derived from the specification.'),
  pricePrecision: orNull(z.int().describe('Decimal places of a price.')),
  disappearedAt: orNull(time('When the service had stopped listing it.')),
})

const instruments = z.strictObject({ instruments: z.array(instrumentRow).max(100) })

const candles = z.strictObject({
  candles: z
    .array(
      z.strictObject({
        openTime: time('Opening time.'),
        open: decimal('First price.'),
        high: decimal('Highest price.'),
        low: decimal('Lowest price.'),
        close: decimal('Last price.'),
        baseVolume: orNull(decimal('Volume in base coin.')),
        quoteTurnover: orNull(decimal('Turnover in quote coin.')),
        isClosed: z.boolean().describe('Whether it is final; false while it forms.'),
        isComplete: z.boolean().describe('Whether it is final, and none of its minutes is missing.'),
      }),
    )
    .describe('Ascending.'),
  source: interval.describe('The interval that was read: the asked one, or 1m when rolled up from it.'),
  hasOlder: z.boolean().describe('Whether more are found by asking with the first openTime as `before`.'),
  covered: z.array(range).describe('What is proven to be stored in full, within the span of the candles.'),
  gaps: z
    .array(
      range.extend({
        reason: z.string().describe('Why it is there.'),
        state: z.enum(['open', 'repaired', 'lost']).describe('What became of it.'),
        detectedAt: time('When it was found.'),
      }),
    )
    .describe('Known gaps within the span of the candles.'),
})

const bookSide = z.strictObject({
  prices: z.array(z.string()).describe('Best first. Decimal text, exact.'),
  sizes: z.array(z.string()).describe('Visible size at each price.'),
  rpiSizes: z
    .array(z.string())
    .nullable()
    .describe('RPI size at each price; null when the snapshot does not include it.'),
})

const book = z
  .strictObject({
    ts: time("The service's time of the snapshot."),
    receivedAt: time('When it was received.'),
    bids: bookSide,
    asks: bookSide,
  })
  .nullable()
  .describe('null when none is stored.')

const ticker = z
  .strictObject({
    ts: time("The service's time of the ticker."),
    receivedAt: time('When it was received.'),
    lastPrice: orNull(decimal('Last price.')),
    bid1Price: orNull(decimal('Best bid.')),
    ask1Price: orNull(decimal('Best ask.')),
    price24hPcnt: orNull(decimal('Change in 24 hours, a fraction.')),
    volume24h: orNull(decimal('Volume in 24 hours, base coin.')),
    turnover24h: orNull(
      decimal('Turnover in 24 hours, quote coin; for a tokenised stock, that of a market elsewhere.'),
    ),
    platformTurnover24h: orNull(decimal('The part of it traded here, where the service says so.')),
    markPrice: orNull(decimal('Mark price.')),
    indexPrice: orNull(decimal('Index price.')),
    fundingRate: orNull(decimal('Funding rate, a fraction.')),
    openInterest: orNull(decimal('Open interest.')),
  })
  .nullable()
  .describe('null when none is stored.')

const instrument = z.strictObject({ instrument: orNull(instrumentRow), ticker, book, fills })

const history = z.strictObject({
  points: z.array(
    z.strictObject({
      time: time('Start of the span.'),
      fundingRate: orNull(decimal('The newest funding rate in it, a fraction.')),
      spreadBps: orNull(decimal('Mean spread, basis points.')),
      maxSpreadBps: orNull(decimal('Widest spread, basis points.')),
    }),
  ),
  stepMs: z.int().describe('Length of a span, milliseconds.'),
})

const calendar = z.strictObject({
  from: time('First day, 00:00 UTC.'),
  to: time('End of the last day.'),
  total: count('Series that match.'),
  series: z.array(
    z.strictObject({
      ...seriesKey,
      days: z
        .array(z.enum(['none', 'missing', 'complete', 'partial', 'lost', 'empty']))
        .describe(
          'One for each day. none: nothing proven. missing: nothing proven, and an open gap. partial: some of it. lost: has a gap that the service does not fill. empty: proven, and nothing happened.',
        ),
    }),
  ),
})

const coverage = z.strictObject({
  covered: z.array(range).describe('Proven to be stored in full.'),
  empty: z.array(range).describe('Parts of it that hold nothing because nothing was traded. Candles only.'),
  gaps: candles.shape.gaps.describe('Known gaps of the series between `from` and `to`.'),
})

/** Event about the instrument that an open page shows. It is sent every two seconds. */
const instrumentEvent = z.strictObject({
  ticker,
  book,
  fills,
  candles: candles.shape.candles.describe('The newest three.'),
})

const market = z.strictObject({
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
      completeShare: orNull(
        z.number().min(0).max(1).describe('Share of the 1m candles of a day that is proven; null where none is.'),
      ),
    }),
  ),
})

const curves = z.strictObject({
  curves: z.array(
    z.strictObject({
      category,
      symbol,
      prices: z
        .array(orNull(decimal('Last price.')))
        .describe('Each quarter of an hour over 24 hours, the oldest first.'),
    }),
  ),
})

/** Responses about the market and its proof, by the last part of their path. `event` is sent by /api/events. */
export const marketResponses = {
  instruments,
  instrument,
  market,
  curves,
  candles,
  history,
  calendar,
  coverage,
  event: instrumentEvent,
} as const

export type MarketResponses = { [Name in keyof typeof marketResponses]: z.infer<(typeof marketResponses)[Name]> }
