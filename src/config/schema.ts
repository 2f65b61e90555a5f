import { isIP } from 'node:net'
import { z } from 'zod'
import { intervalMs } from '../market/candle.js'
import { operations, specifiedPerSecond } from '../market/operation.js'
import { marketTables, streamTraits, type TimeStream, timeStreams, type TimeTable } from '../market/stream.js'
import { dayMs } from '../market/values.js'
import { logLevels } from '../runtime/logger.js'
import { streams, whole } from './streamsSchema.js'

// Turns off compiled checks. A configuration is read once, and compiling takes longer than the checks.
z.config({ jitless: true })

// Descriptions appear in the documentation, the example file and editors. Each names a decision and its unit.
// A value that no user decides is a constant, and joins the configuration when it is read.

// Number of connections. With fewer, a slow query of a command could hold up the storing of rows.
const poolSize = 8

/** Returns true if a login with percent signs can be decoded, as whatever opens a connection does. */
function isDecodable(url: string): boolean {
  try {
    return decodeURIComponent(url) !== ''
  } catch {
    return false
  }
}

const httpUrl = (example: string) =>
  z
    .url({ protocol: /^https?$/, error: `must be an http or https URL such as ${example}` })
    .refine(isDecodable, { error: 'must spell a percent sign as %25' })

const connectionString = (user: string) =>
  z
    .string()
    .regex(/^postgres(ql)?:\/\/\S+$/, {
      error: `must be a connection string such as postgres://${user}:password@127.0.0.1:5432/market`,
    })
    .exactOptional()

const database = z
  .strictObject({
    url: connectionString('user').describe(
      'Connection string of the database. A secret: prefer the environment variable DATABASE_URL, or DATABASE_URL_FILE with the path of a file that holds it. ' +
        'With neither, an embedded PostgreSQL is started in dataDir.',
    ),
    readUrl: connectionString('analyst').describe(
      'Connection string of a login in market_reader, which query, export and the page use, and nobody else: analysts get their own. A secret: prefer DATABASE_READ_URL or DATABASE_READ_URL_FILE. ' +
        'Without it they use database.url, in read-only transactions, but with a login that could write; the embedded PostgreSQL has read-only logins of its own.',
    ),
    dataDir: z.string().min(1).default('./data').describe('Folder of the embedded PostgreSQL and of local state.'),
  })
  .prefault({})
  .transform((options) => ({ ...options, poolSize }))
  .describe('Where rows go.')

const limits = z
  .strictObject({
    overallPerMinute: whole(1, 1_000_000)
      .default(6000)
      .describe('Requests per minute that the service allows for all operations together, per IP address.'),
    perSecond: z
      .partialRecord(z.enum(operations), whole(1, 10_000))
      .prefault(() => ({ ...specifiedPerSecond }))
      .transform((given) => ({ ...specifiedPerSecond, ...given }))
      .describe(
        'Requests per second that the service allows for an operation, per IP address. Operations that are not named keep their default.',
      ),
  })
  .prefault({})
  .describe("The service's limits. Lower them to leave room for something else on the same IP address.")

const exchangeConstants = {
  /** A service that hangs must not hold a connection and a place in the limits for longer. */
  timeoutMs: 10_000,
  /** More connections would only queue in the service, because the limits allow a hundred requests a second. */
  maxConnections: 64,
  /**
   * The time from sending a request to its being counted varies by this much. Requests can therefore arrive closer
   * together than they were sent. Rates stay below limit / (1 + jitter in s).
   */
  latencyJitterMs: 100,
  /** Upper bounds of random waits. Without them, recorders would all try again at once after the service was away. */
  retry: { attempts: 4, minDelayMs: 250, maxDelayMs: 5_000, totalMs: 30_000 },
}

const exchange = z
  .strictObject({
    baseUrl: httpUrl('https://api.example.com')
      .transform((url) => url.replace(/\/+$/, '').replace(/\/api\/v3$/, ''))
      .exactOptional()
      .describe(
        "The service's address, without /api/v3. Also EXCHANGE_BASE_URL in the environment. start needs one of the two.",
      ),
    localAddress: z
      .string()
      .refine((text) => isIP(text) !== 0, { error: 'must be an IP address of this machine' })
      .exactOptional()
      .describe(
        'The IP address of this machine to send from; by default the system chooses. Also EXCHANGE_LOCAL_ADDRESS in the environment.',
      ),
    proxy: httpUrl('http://proxy.example.com:3128')
      .exactOptional()
      .describe(
        'URL of the HTTP proxy that requests go through; by default they go straight to the service. With a password it is a secret: prefer EXCHANGE_PROXY or EXCHANGE_PROXY_FILE in the environment.',
      ),
    limits,
  })
  .prefault({})
  .transform((options) => ({ ...options, ...exchangeConstants }))
  .describe('The service that is recorded.')

// With a longer time, a service manager would kill the process before the remaining rows are on disk.
const drainTimeoutMs = 10_000

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
  .transform((options) => ({ ...options, drainTimeoutMs }))
  .describe('The recorder itself.')

/** Defines how the table of a stream is kept. */
function table(name: TimeStream) {
  const { options: group } = streamTraits[name]
  const names = timeStreams.filter((other) => streamTraits[other].options === group)
  const { chunkHours, columnstoreAfterHours }: Pick<TimeTable, 'chunkHours' | 'columnstoreAfterHours'> =
    streamTraits[name].table
  return z
    .strictObject({
      retentionDays: whole(1, 36_500).exactOptional().describe('Age at which rows are removed; by default never.'),
    })
    .prefault({})
    .transform((options) => ({ ...options, chunkHours, columnstoreAfterHours }))
    .describe(names.map((one) => `market.${one}`).join(', '))
}

type TableOptions = Record<(typeof streamTraits)[TimeStream]['options'], ReturnType<typeof table>>
const tables = timeStreams.map((name) => [streamTraits[name].options, table(name)])

const storage = z
  .strictObject(Object.fromEntries(tables) as TableOptions)
  .prefault({})
  .describe('How long rows are kept.')

/** Returns true for an address without credentials. They would appear wherever the address is shown. */
function isServiceUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === '' && password === ''
}

const archive = z
  .strictObject({
    folder: z
      .string()
      .min(1)
      .exactOptional()
      .describe('Folder of the archive. With neither a folder nor a bucket nothing is archived.'),
    bucket: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, { error: 'must be the name of a bucket, such as market-archive' })
      .exactOptional()
      .describe(
        'Bucket of the archive, instead of a folder: of Amazon S3 or a service that is compatible. Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE) or the role of the machine.',
      ),
    prefix: z
      .string()
      .regex(/^[^/].*$/, { error: 'must not be empty or begin with a slash' })
      .exactOptional()
      .describe('What the names of everything in the bucket begin with, such as market/.'),
    endpoint: z
      .string()
      .refine(isServiceUrl, {
        error: 'must be a URL without credentials, such as https://s3.example.com',
      })
      .exactOptional()
      .describe('Address of the service that has the bucket. Default: that of Amazon S3.'),
    region: z
      .string()
      .min(1)
      .exactOptional()
      .describe('Region of the bucket. Default: AWS_REGION, or the region of the profile.'),
    forcePathStyle: z
      .boolean()
      .default(false)
      .describe(
        'Whether the bucket stands in the path of URLs instead of the name of the host, as many services other than Amazon want it.',
      ),
    tables: z
      .array(z.enum(marketTables))
      .min(1)
      .default(() => [...marketTables])
      .describe('Tables to archive.'),
    afterHours: whole(1, 87_600)
      .default(24)
      .describe('How long after its end (UTC) a day is archived, hours: repair is over by then.'),
    snapshotDays: whole(1, 36_500)
      .default(30)
      .describe('How long a snapshot of the tables stays readable after the next one, days.'),
  })
  .refine(({ folder, bucket }) => folder === undefined || bucket === undefined, {
    error: 'must have a folder or a bucket, not both',
  })
  .refine(
    ({ bucket, prefix, endpoint, region, forcePathStyle }) =>
      bucket !== undefined || ([prefix, endpoint, region].every((option) => option === undefined) && !forcePathStyle),
    { error: 'must name the bucket that prefix, endpoint, region and forcePathStyle are for' },
  )
  .prefault({})
  .describe(
    'Parquet files of settled days, with the proof of what they hold. With an archive, rows leave the database for their age only when their day is in it.',
  )

const serve = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Whether metrics, health and the status page are served.'),
    host: z.string().min(1).default('127.0.0.1').describe('Address to listen on.'),
    port: whole(0, 65_535).default(8080).describe('Port to listen on; 0 takes any free one.'),
    allowedHosts: z
      .array(
        z.string().regex(/^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/, {
          error: 'must be a host name such as recorder.example.org',
        }),
      )
      .default(() => [])
      .describe(
        'Host names that the server may be called by, besides addresses and localhost; others are refused. By default any, unless host is an address of this machine only.',
      ),
    password: z
      .string()
      .min(16, { error: 'must have at least 16 characters' })
      .exactOptional()
      .describe(
        'Password of the page, at least 16 characters; the name is recorder. A secret: prefer SERVE_PASSWORD, or SERVE_PASSWORD_FILE with the path of a file that holds it. Needed where host is no address of this machine only.',
      ),
  })
  .prefault({})
  .describe('The HTTP server for metrics, health and the status page.')

const log = z
  .strictObject({
    level: z
      .enum(logLevels)
      .default('info')
      .describe('Lowest severity that is logged. Also LOG_LEVEL in the environment.'),
  })
  .prefault({})
  .describe('Logging, to standard error.')

const groups = z.strictObject({ database, exchange, collector, streams, storage, archive, serve, log })

/** Refuses candles that are as old as their table keeps rows when they close: none of them would ever be stored. */
function refuseShortRetention(all: z.output<typeof groups>, context: z.core.$RefinementCtx): void {
  const { enabled, intervals } = all.streams.candles
  const { retentionDays = Infinity } = all.storage.candles
  const tooLong = intervals.filter((interval) => intervalMs[interval] >= retentionDays * dayMs)
  if (!enabled || tooLong.length === 0) return
  context.addIssue({
    code: 'custom',
    path: ['storage', 'candles', 'retentionDays'],
    message: `must be longer than each of streams.candles.intervals: ${tooLong.join(', ')} would be too old at the close`,
    input: all,
  })
}

export const configSchema = groups.superRefine(refuseShortRetention)
