import { parse as parseCron, validate as isCronExpression } from 'node-cron'
import { z } from 'zod'

import { candleTypes, intervals } from '../market/candle.js'
import { type Category, categories, tradedCategories } from '../market/category.js'
import { type InstrumentKind, instrumentKinds } from '../market/instrument.js'
import { logLevels } from '../runtime/logLevel.js'
import { archive } from './archiveSchema.js'
import { exchange } from './exchangeSchema.js'
import { refuseMissingLists } from './missingLists.js'
import { serve } from './serveSchema.js'
import { storage } from './storageSchema.js'
import { whole } from './wholeNumber.js'

// A configuration is read once: compiling its checks would take longer than they do.
z.config({ jitless: true })

// Descriptions end up in the documentation, the example file and editors: each says what the option does and its unit.

const schedule = z
  .string()
  .refine((text) => isCronExpression(text) && hasSecondsField(text), {
    error: 'must be a cron expression of six fields, seconds first, such as "*/5 * * * * *" for every five seconds',
  })
  .meta({ examples: ['*/5 * * * * *'] })

/** Five fields would be valid cron too, but would mean minutes where the others mean seconds: a mistake of factor 60. */
function hasSecondsField(expression: string): boolean {
  return expression.trim().split(/\s+/).length === 6 && parseCron(expression).second.length > 0
}

const distinct = <Element extends z.ZodType<string>>(element: Element) =>
  z
    .array(element)
    .min(1)
    .refine((values) => new Set(values).size === values.length, { error: 'must not name anything twice' })

const glob = z.string().min(1).max(100)

// A number is accepted because YAML reads a bare 1000000 as one; it becomes text, as every decimal here.
const decimal = z
  .union([
    z.string().regex(/^\d+(\.\d+)?$/, { error: 'must be a decimal number such as 250000 or "0.5"' }),
    z.number().nonnegative(),
  ])
  .transform((value) => (typeof value === 'number' ? value.toLocaleString('en-US', plainNumber) : value))
const plainNumber: Intl.NumberFormatOptions = { useGrouping: false, maximumFractionDigits: 20 }

// "all" becomes Infinity, so that "the first n" needs no special case for it.
const busiest = z
  .union([whole(1, 100_000), z.enum(['fit', 'all'])])
  .transform((value) => (value === 'all' ? Infinity : value))

// The market of a tokenised stock is elsewhere: little or nothing of it trades here, and there are thousands.
const kindsByDefault: readonly InstrumentKind[] = instrumentKinds.filter((kind) => kind !== 'tokenised_stock')

function select<const Allowed extends readonly Category[]>(
  allowed: Allowed,
  defaults: { categories: readonly Allowed[number][] },
) {
  return z
    .strictObject({
      categories: distinct(z.enum(allowed))
        .default(() => [...defaults.categories])
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
        .describe('Symbols to cover: globs such as BTC*, in upper case as the service writes them.'),
      exclude: z
        .array(glob)
        .default(() => [])
        .describe('Symbols to exclude: globs.'),
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
    .prefault({})
    .describe('Which instruments the stream covers.')
}

const enabled = z.boolean().default(true).describe('Whether the stream is recorded.')

const database = z
  .strictObject({
    url: z
      .string()
      .regex(/^postgres(ql)?:\/\/\S+$/, {
        error: 'must be a connection string such as postgres://user:password@127.0.0.1:5432/market',
      })
      .exactOptional()
      .describe(
        'Connection string of the database. A secret: prefer the environment variable DATABASE_URL, or DATABASE_URL_FILE with the path of a file that holds it. ' +
          'With neither, an embedded PostgreSQL is started in dataDir.',
      ),
    readUrl: z
      .string()
      .regex(/^postgres(ql)?:\/\/\S+$/, {
        error: 'must be a connection string such as postgres://analyst:password@127.0.0.1:5432/market',
      })
      .exactOptional()
      .describe(
        'Connection string of a login in market_reader, which query, export and the page use, and nobody else: analysts get their own. A secret: prefer DATABASE_READ_URL or DATABASE_READ_URL_FILE. ' +
          'Without it they use database.url, in read-only transactions, but with a login that could write; the embedded PostgreSQL has read-only logins of its own.',
      ),
    dataDir: z.string().min(1).default('./data').describe('Folder of the embedded PostgreSQL and of local state.'),
    poolSize: whole(1, 100)
      .default(8)
      .describe('Connections of the general pool; a recorder opens up to poolSize + 14.'),
  })
  .prefault({})
  .describe('Where rows go.')

const collector = z
  .strictObject({
    egress: z
      .string()
      .min(1)
      .max(200)
      .exactOptional()
      .describe(
        "Name of the IP address that requests leave from; one recorder per name owns its budget. Default: the host's name, or the proxy's. Also COLLECTOR_EGRESS in the environment.",
      ),
    egresses: whole(1, 10_000)
      .default(1)
      .describe(
        'How many recorders, each with an address of its own, share the work. Used only by plan, doctor and the check at start.',
      ),
    drainTimeoutMs: whole(0, 600_000)
      .default(10_000)
      .describe('Longest time to store what has been received when stopping.'),
    spoolMaxBytes: whole(16_777_216, 1_000_000_000_000_000)
      .default(2_147_483_648)
      .describe(
        'Maximum disk space for what waits for the database, below dataDir. Beyond that the oldest data is dropped and noted as a gap.',
      ),
    allowOverload: z
      .boolean()
      .default(false)
      .describe('Start even if the configuration needs more than the limits allow.'),
  })
  .prefault({})
  .describe('The recorder itself.')

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
    schedule: schedule.default('30 */10 * * * *').describe('When the list is read: cron with seconds, UTC.'),
  })
  .prefault({})
  .describe('The list of symbols that have RPI quotes.')

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
        'Least seconds between extra reads of the tickers of a category whose fills are recorded, so that bursts of fills are noticed in time: this captures one to three hundredths more of a busy market, and each read brings some ten to some hundred kilobytes. A category is read for every 60 fills that are expected in it, so more often in a burst, and only while more fills happen than the limits can cover with a margin. The reads are not recorded, and take at most a tenth of the overall limit and a third of their own. 0: use only the recorded tickers.',
      ),
  })
  .prefault({})
  .describe('Tickers of all instruments of a category at once.')

function books(everySeconds: number, what: string) {
  return z
    .strictObject({
      enabled,
      everySeconds: whole(1, 86_400).default(everySeconds).describe('Seconds between two snapshots of an instrument.'),
      depth: whole(1, 1000).default(50).describe('Levels on each side.'),
      select: select(tradedCategories, { categories: tradedCategories }),
    })
    .prefault({})
    .describe(what)
}

const fills = z
  .strictObject({
    enabled,
    minPollSeconds: z
      .number()
      .min(0.05)
      .max(86_400)
      .default(0.05)
      .describe('Minimum time between two requests for an instrument, in seconds.'),
    maxPollSeconds: whole(1, 86_400)
      .default(600)
      .describe('Maximum time between two requests for an instrument, in seconds.'),
    // Margin trades on the spot books: its fills would be the spot ones once more.
    select: select(categories, { categories: tradedCategories }),
  })
  .refine((value) => value.minPollSeconds <= value.maxPollSeconds, {
    path: ['minPollSeconds'],
    error: 'must not be larger than maxPollSeconds',
  })
  .prefault({})
  .describe('Public fills; the busier an instrument, the more often it is asked.')

const candles = z
  .strictObject({
    enabled,
    intervals: distinct(z.enum(intervals))
      .default(() => ['1m' as const])
      .describe('Intervals to record; each costs a request per instrument and type whenever it closes.'),
    types: distinct(z.enum(candleTypes))
      .default(() => ['market' as const])
      .describe('Types to record.'),
    settleMs: whole(0, 600_000).default(5000).describe('Wait after the close before a candle is taken as final.'),
    select: select(tradedCategories, { categories: tradedCategories }),
  })
  .prefault({})
  .describe('Candles.')

const streams = z
  .strictObject({
    instruments,
    rpiSymbols,
    tickers,
    orderBooks: books(10, 'Snapshots of order books.'),
    rpiOrderBooks: books(30, 'Snapshots of order books with their RPI part, of the symbols that have one.'),
    fills,
    candles,
  })
  .superRefine(refuseMissingLists)
  .prefault({})
  .describe('What is recorded.')

const log = z
  .strictObject({
    level: z
      .enum(logLevels)
      .default('info')
      .describe('Lowest severity that is logged. Also LOG_LEVEL in the environment.'),
  })
  .prefault({})
  .describe('Logging, to standard error.')

export const configSchema = z.strictObject({ database, exchange, collector, streams, storage, archive, serve, log })
