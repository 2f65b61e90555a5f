import { isIP } from 'node:net'
import { z } from 'zod'
import { whole } from './wholeNumber.js'

/** An operation's own limit. */
const perSecond = (operation: string, limit: number) =>
  whole(1, 10_000).default(limit).describe(`Requests per second that the service allows for ${operation}.`)

const limits = z
  .strictObject({
    overallPerMinute: whole(1, 1_000_000)
      .default(6000)
      .describe('Requests per minute that the service allows for all operations together, per IP address.'),
    perSecond: z
      .strictObject({
        instruments: perSecond('instruments', 20),
        'rpi-symbols': perSecond('rpi-symbols', 10),
        tickers: perSecond('tickers', 20),
        orderbook: perSecond('orderbook', 20),
        'rpi-orderbook': perSecond('rpi-orderbook', 10),
        fills: perSecond('fills', 20),
        candles: perSecond('candles', 20),
        'history-candles': perSecond('history-candles', 20),
        'futures-fills-history': perSecond('fills-history of futures', 10),
        'spot-fills-history': perSecond('fills-history of spot', 10),
        'history-fund-rate': perSecond('history-fund-rate', 20),
        'current-fund-rate': perSecond('current-fund-rate', 20),
        liquidations: perSecond('liquidations', 10),
      })
      .prefault({})
      .describe("Each operation's own limit, per IP address."),
  })
  .prefault({})
  .describe("The service's limits. Lower them to leave room for something else on the same IP address.")

const retry = z
  .strictObject({
    attempts: whole(1, 20).default(4).describe('Maximum number of attempts for one request, the first included.'),
    minDelayMs: whole(1, 600_000).default(250).describe('Upper bound of the random wait before the second attempt.'),
    maxDelayMs: whole(1, 600_000).default(5000).describe('Upper bound of the random wait before any attempt.'),
    totalMs: whole(1, 3_600_000).default(30_000).describe('No attempt starts later than this after the first one.'),
  })
  .refine((value) => value.minDelayMs <= value.maxDelayMs, {
    path: ['minDelayMs'],
    error: 'must not be larger than maxDelayMs',
  })
  .prefault({})
  .describe('When a request that failed is sent again.')

export const exchange = z
  .strictObject({
    baseUrl: z
      .url({ protocol: /^https?$/, error: 'must be an http or https URL such as https://api.example.com' })
      .transform((url) => url.replace(/\/+$/, ''))
      .exactOptional()
      .describe(
        "The service's address, without /api/v3. Also EXCHANGE_BASE_URL in the environment. start needs one of the two.",
      ),
    timeoutMs: whole(100, 600_000)
      .default(10_000)
      .describe('Longest time for one request, from connecting to its end.'),
    maxResponseBytes: whole(65_536, 1_073_741_824)
      .default(16_777_216)
      .describe(
        'Largest response that is read; a larger one is an error. Most operations have a smaller limit of their own.',
      ),
    maxConnections: whole(1, 1000).default(64).describe('Maximum number of connections to the service.'),
    latencyJitterMs: whole(0, 10_000)
      .default(100)
      .describe(
        'How much the time from sending a request to its being counted varies. Rates stay below limit / (1 + jitter in s).',
      ),
    localAddress: z
      .string()
      .refine((text) => isIP(text) !== 0, { error: 'must be an IP address of this machine' })
      .exactOptional()
      .describe(
        'The IP address of this machine to send from; by default the system chooses. Also EXCHANGE_LOCAL_ADDRESS in the environment.',
      ),
    proxy: z
      .url({ protocol: /^https?$/, error: 'must be an http or https URL such as http://proxy.example.com:3128' })
      .exactOptional()
      .describe(
        'URL of the HTTP proxy that requests go through; by default they go straight to the service. With a password it is a secret: prefer EXCHANGE_PROXY or EXCHANGE_PROXY_FILE in the environment.',
      ),
    limits,
    retry,
  })
  .prefault({})
  .describe('The service that is recorded.')
