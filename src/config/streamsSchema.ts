import { validate as isCronExpression, parse as parseCron } from 'node-cron'
import { z } from 'zod'
import { candleTypes, intervals } from '../market/candle.js'
import { categories, tradedCategories } from '../market/category.js'
import { type InstrumentKind, instrumentKinds } from '../market/instrument.js'
import { isOfFutures, type StreamName, streamNames, streamTraits } from '../market/stream.js'
import { secondsPerDay } from '../market/values.js'

/** Defines a whole number between two bounds. */
export const whole = (min: number, max: number) =>
  z
    .int({ error: (issue) => (issue.code === 'invalid_type' ? 'must be a whole number' : undefined) })
    .min(min)
    .max(max)

const schedule = z
  .string()
  .refine((text) => isCronExpression(text) && hasSecondsField(text), {
    error: 'must be a cron expression of six fields, seconds first, such as "*/5 * * * * *" for every five seconds',
  })
  .meta({ examples: ['*/5 * * * * *'] })

/** Returns true for six fields. Cron with five fields means minutes in place of seconds, an error by a factor of 60. */
function hasSecondsField(expression: string): boolean {
  return expression.trim().split(/\s+/).length === 6 && parseCron(expression).second.length > 0
}

const distinct = <Element extends z.ZodType<string>>(element: Element) =>
  z
    .array(element)
    .min(1)
    .refine((values) => new Set(values).size === values.length, { error: 'must not name anything twice' })

const glob = z.string().min(1).max(100)

// Accepts a number, because YAML reads a bare 1000000 as one. It becomes text, like every decimal here.
const decimal = z
  .union([
    z.string().regex(/^\d+(\.\d+)?$/, { error: 'must be a decimal number such as 250000 or "0.5"' }),
    z.number().nonnegative(),
  ])
  .transform((value) => (typeof value === 'number' ? value.toLocaleString('en-US', plainNumber) : value))

const plainNumber: Intl.NumberFormatOptions = { useGrouping: false, maximumFractionDigits: 20 }

// "all" becomes Infinity, so that "the first n" needs no special case.
const busiest = z
  .union([whole(1, 100_000), z.enum(['fit', 'all'])])
  .transform((value) => (value === 'all' ? Infinity : value))

// Tokenised stocks are not recorded by default. There are thousands, and they trade mostly elsewhere.
const kindsByDefault: readonly InstrumentKind[] = instrumentKinds.filter((kind) => kind !== 'tokenised_stock')

const selection = z
  .strictObject({
    categories: distinct(z.enum(tradedCategories))
      .default(() => [...tradedCategories])
      .describe('Categories to cover.'),
    kinds: distinct(z.enum(instrumentKinds))
      .default(() => [...kindsByDefault])
      .describe(
        'Kinds of instruments to cover. By default all but tokenised stocks, which hardly trade here; their tickers are recorded anyway.',
      ),
    symbols: z
      .array(glob)
      .min(1)
      .default(() => ['*'])
      .describe('Symbols to cover, in any case. In each, * stands for any characters and ? for one: BTC*.'),
    exclude: z
      .array(glob)
      .default(() => [])
      .describe('Symbols to exclude, with * and ? as above.'),
    minTurnover24h: decimal
      .exactOptional()
      .describe(
        "Leave out instruments whose ticker shows less turnover on this service in 24 hours, in the pair's quote coin.",
      ),
    busiest: busiest
      .prefault('fit')
      .describe(
        'How many of them to cover, by highest turnover on this service in 24 hours: a number; fit: as many as the limits leave room for; or all.',
      ),
  })
  .meta({ id: 'select', description: 'Which instruments a stream covers. Every stream that has `select` takes these.' })

/** Selection of instruments, the same for every stream of instruments. */
const select = selection.prefault({}).describe('Which instruments the stream covers.')

const enabled = z.boolean().default(true).describe('Whether the stream is recorded.')
const off = z.boolean().default(false)

const instruments = z
  .strictObject({
    enabled,
    schedule: schedule.default('0 */10 * * * *').describe('When the lists are read: cron with seconds, UTC.'),
    categories: distinct(z.enum(categories))
      .default(() => [...categories])
      .describe('Categories to read, one request each.'),
  })
  .prefault({})
  .describe('Specifications of instruments.')

const rpiSymbols = z
  .strictObject({
    enabled,
  })
  .prefault({})
  .describe('The list of symbols that have RPI quotes, read when those of instruments are.')

const tickers = z
  .strictObject({
    enabled,
    schedule: schedule.default('*/5 * * * * *').describe('When tickers are read: cron with seconds, UTC.'),
    categories: distinct(z.enum(tradedCategories))
      .default(() => [...tradedCategories])
      .describe('Categories to read, one request each.'),
    watchSeconds: z
      .number()
      .min(0)
      .max(3600)
      .default(0.1)
      .describe(
        'Shortest time between extra reads of the tickers of a category, which show bursts of fills. They bring one to three percent more fills of a busy market; each read takes 10 to 300 KB. Raise it where traffic costs money; 0 turns them off.',
      ),
  })
  .prefault({})
  .describe('Tickers of all instruments of a category at once.')

function books(everySeconds: number, what: string) {
  return z
    .strictObject({
      enabled,
      everySeconds: whole(1, secondsPerDay)
        .default(everySeconds)
        .describe('Seconds between two snapshots of an instrument.'),
      depth: whole(1, 1000).default(50).describe('Levels on each side.'),
      select,
    })
    .prefault({})
    .describe(what)
}

const fills = z
  .strictObject({
    enabled,
    maxPollSeconds: whole(1, secondsPerDay)
      .default(600)
      .describe('Longest time between two requests for an instrument, in seconds. Busy ones are asked more often.'),
    select,
  })
  .prefault({})
  .describe('Public fills; the busier an instrument, the more often it is asked.')

// Wait after a candle's close. The service still changes a candle for some seconds, so an earlier read could be wrong.
const candleSettleMs = 5_000

const candles = z
  .strictObject({
    enabled,
    intervals: distinct(z.enum(intervals))
      .default(() => ['1m' as const])
      .describe('Intervals to record; each costs a request per instrument and type whenever it closes.'),
    types: distinct(z.enum(candleTypes))
      .default(() => ['market' as const])
      .describe('Types to record.'),
    select,
  })
  .prefault({})
  .transform((options) => ({ ...options, settleMs: candleSettleMs }))
  .describe('Candles.')

const allStreams = z.strictObject({
  instruments,
  rpiSymbols,
  tickers,
  orderBooks: books(10, 'Snapshots of order books.'),
  rpiOrderBooks: books(30, 'Snapshots of order books with their RPI part, of the symbols that have one.'),
  fills,
  candles,
  fundingRates: z
    .strictObject({ enabled, select })
    .prefault({})
    .describe('Settled funding rates of futures, with those of the last 90 days.'),
  fundingForecasts: z
    .strictObject({ enabled })
    .prefault({})
    .describe('Funding rates of futures as they form, once a minute.'),
  liquidations: z
    .strictObject({ enabled, select })
    .prefault({})
    .describe('Liquidations of futures, of which the service shows those of the last three days.'),
  positioning: z
    .strictObject({
      enabled: off.describe('Whether the four streams are recorded.'),
      select,
    })
    .prefault({})
    .describe(
      'Taker flow and long/short ratios of futures, by periods of five minutes. The service allows one request a second for each of the four.',
    ),
  futuresTerms: z
    .strictObject({ enabled: off.describe('Whether the components of indices are recorded.') })
    .prefault({})
    .describe(
      'Components of the indices of futures, read once an hour, of the futures that fundingRates.select covers.',
    ),
} satisfies Readonly<Record<(typeof streamTraits)[StreamName]['options'], z.ZodType>>)

export const streams = allStreams.superRefine(refuseMissingLists).prefault({}).describe('What is recorded.')

/** Option groups of futures streams. They record nothing, without an error, if the lists hold no futures. */
const ofFutures: ReadonlySet<string> = new Set(
  streamNames.filter(isOfFutures).map((name) => streamTraits[name].options),
)

/** Refuses streams of instruments without the lists. They would record nothing, and nobody would notice. */
function refuseMissingLists(all: z.output<typeof allStreams>, context: z.core.$RefinementCtx): void {
  const refuse = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message, input: all })
  const choosers = Object.entries(all).flatMap(([name, stream]) =>
    stream.enabled && 'select' in stream && !ofFutures.has(name)
      ? [{ name, categories: stream.select.categories }]
      : [],
  )
  if (all.instruments.enabled) {
    const listed = new Set<string>(all.instruments.categories)
    for (const { name, categories: chosen } of choosers) {
      const unlisted = chosen.filter((category) => !listed.has(category))
      if (unlisted.length === 0) continue
      const left = `what streams.instruments.categories leaves out (${unlisted.join(', ')})`
      refuse([name, 'select', 'categories'], `must not name ${left}: the stream chooses from its lists`)
    }
  } else if (choosers.length > 0) {
    const who = choosers.map(({ name }) => `streams.${name}`).join(', ')
    refuse(['instruments', 'enabled'], `must be true while ${who} choose from its lists`)
  }
  if (all.rpiOrderBooks.enabled && !all.rpiSymbols.enabled) {
    refuse(['rpiSymbols', 'enabled'], 'must be true while streams.rpiOrderBooks chooses from its list')
  }
}
