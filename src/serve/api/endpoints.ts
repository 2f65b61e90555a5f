import { createRoute, OpenAPIHono } from '@hono/zod-openapi'
import { z } from 'zod'
import { recorderResponses } from './contract.js'
import { marketResponses } from './marketContract.js'
import { queries } from './parameters.js'

const failure = { 'application/json': { schema: recorderResponses.failure } }
const wrong = { description: 'A parameter is wrong.', content: failure }
const away = { description: 'The database does not respond, or the recorder is not ready.', content: failure }

function endpoint<const Path extends string, Query extends z.ZodObject, Response extends z.ZodType>(
  path: Path,
  summary: string,
  query: Query,
  response: Response,
) {
  const content = { 'application/json': { schema: response } }
  return createRoute({
    method: 'get',
    path,
    summary,
    request: { query },
    responses: { 200: { description: 'The response.', content }, 400: wrong, 503: away },
  })
}

/**
 * Defines the paths of the JSON API with their parameters and responses. The routes, the reference and the types of the
 * page follow from these definitions.
 */
export const endpoints = {
  '/api/status': endpoint('/api/status', 'How the recorder is doing.', queries.nothing, recorderResponses.status),
  '/api/instruments': endpoint(
    '/api/instruments',
    'Search for instruments.',
    queries.instruments,
    marketResponses.instruments,
  ),
  '/api/instruments/busiest': endpoint(
    '/api/instruments/busiest',
    'The instrument with the highest turnover of those with candles of the last day.',
    queries.nothing,
    marketResponses.instruments,
  ),
  '/api/instrument': endpoint(
    '/api/instrument',
    'An instrument with its newest ticker and order book of the last day and its fills of the last hour, or those before a moment.',
    queries.instrument,
    marketResponses.instrument,
  ),
  '/api/market': endpoint(
    '/api/market',
    'Every listed instrument with its newest ticker of the last hour.',
    queries.nothing,
    marketResponses.market,
  ),
  '/api/curves': endpoint(
    '/api/curves',
    'The price of some instruments over the last 24 hours.',
    queries.curves,
    marketResponses.curves,
  ),
  '/api/candles': endpoint(
    '/api/candles',
    'Candles of a series, the newest before a moment, with what is proven and what is missing among them.',
    queries.candles,
    marketResponses.candles,
  ),
  '/api/history': endpoint(
    '/api/history',
    'Funding rate and spread of an instrument over the last hours.',
    queries.history,
    marketResponses.history,
  ),
  '/api/calendar': endpoint(
    '/api/calendar',
    'How complete each series is, day by day (UTC); those with gaps first.',
    queries.calendar,
    marketResponses.calendar,
  ),
  '/api/coverage': endpoint(
    '/api/coverage',
    'The exact ranges of a series: proven, without a trade, and gaps.',
    queries.coverage,
    marketResponses.coverage,
  ),
} as const

export const events = createRoute({
  method: 'get',
  path: '/api/events',
  summary:
    'Server-sent events: status each second, as /api/status; with a symbol instrument each two seconds: its newest ticker, book, fills and candles.',
  request: { query: queries.events },
  responses: {
    200: {
      description: 'The response.',
      content: { 'text/event-stream': { schema: z.union([recorderResponses.status, marketResponses.event]) } },
    },
    400: wrong,
    503: away,
  },
})

const health = { 'application/json': { schema: recorderResponses.health } }

export const healthz = createRoute({
  method: 'get',
  path: '/healthz',
  summary: 'Whether the process lives.',
  responses: { 200: { description: 'It does.', content: health } },
})
export const readyz = createRoute({
  method: 'get',
  path: '/readyz',
  summary:
    'Whether it records: owns its budget, reaches its database, every stream fresh. 503 with the reasons if not.',
  responses: {
    200: { description: 'It records.', content: health },
    503: { description: 'It does not.', content: health },
  },
})

/** Describes the API for programs, in OpenAPI 3.1. */
export function describeApi(version: string) {
  const app = new OpenAPIHono()
  for (const route of [...Object.values(endpoints), events, healthz, readyz]) app.openAPIRegistry.registerPath(route)
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'market-recorder',
      version,
      description: 'Read-only. Times are Unix milliseconds, decimal numbers are exact text.',
    },
  })
}

export type ApiPath = keyof typeof endpoints
type Endpoint<Path extends ApiPath> = (typeof endpoints)[Path]
export type ResponseOf<Path extends ApiPath> = z.output<
  Endpoint<Path>['responses'][200]['content']['application/json']['schema']
>
/** Query parameters of a path, as the client gives them. */
export type Question<Path extends ApiPath> = z.input<Endpoint<Path>['request']['query']>
export type EventsQuestion = z.input<typeof queries.events>
