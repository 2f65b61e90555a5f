import { z } from 'zod'
import * as contract from './contract.js'
import { queries } from './queries.js'
import { routes } from './routes.js'

interface Endpoint {
  readonly path: string
  readonly summary: string
  readonly query: z.ZodType
  readonly response: z.ZodType
  readonly type: string
}

/** The endpoints besides those of the JSON API's table. */
const others: readonly Endpoint[] = [
  {
    path: '/api/events',
    summary:
      'Server-sent events. `status` each second: as /api/status. With a symbol `instrument` each two seconds: its newest ticker, book and candles.',
    query: queries.events,
    response: z.union([contract.status, contract.instrumentEvent]),
    type: 'text/event-stream',
  },
  {
    path: '/healthz',
    summary: 'Whether the process lives.',
    query: queries.nothing,
    response: contract.health,
    type: 'application/json',
  },
  {
    path: '/readyz',
    summary:
      'Whether it records: owns its budget, reaches its database, every stream fresh. 503 with the reasons if not.',
    query: queries.nothing,
    response: contract.health,
    type: 'application/json',
  },
]

export const endpoints: readonly Endpoint[] = [
  ...routes.map((route) => ({ ...route, type: 'application/json' })),
  ...others,
]

/** The description of the API for programs, OpenAPI 3.1. */
export function openApi(version: string): Record<string, unknown> {
  return {
    openapi: '3.1.0',
    info: {
      title: 'market-recorder',
      version,
      description: 'Read-only. Times are Unix milliseconds, decimal numbers are exact text.',
    },
    paths: Object.fromEntries(endpoints.map((endpoint) => [endpoint.path, { get: operation(endpoint) }])),
  }
}

function operation({ summary, query, response, type }: Endpoint): Record<string, unknown> {
  const failure = { 'application/json': { schema: jsonSchema(contract.failure, 'output') } }
  return {
    summary,
    parameters: parameters(query),
    responses: {
      200: { description: 'The response.', content: { [type]: { schema: jsonSchema(response, 'output') } } },
      400: { description: 'A parameter is wrong.', content: failure },
      503: { description: 'The database does not respond, or the recorder is not ready.', content: failure },
    },
  }
}

export interface Parameter {
  readonly name: string
  readonly in: 'query'
  readonly required: boolean
  readonly description?: string
  readonly schema: ObjectSchema
}

export function parameters(query: z.ZodType): Parameter[] {
  const { properties = {}, required = [] } = jsonSchema(query, 'input')
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    // What is coerced from text has no type of its own on the way in.
    schema: schema.type === undefined && schema.enum === undefined ? { type: 'integer', ...schema } : schema,
  }))
}

export interface ObjectSchema extends Record<string, unknown> {
  readonly type?: string
  readonly description?: string
  readonly default?: string | number | boolean
  readonly properties?: Readonly<Record<string, ObjectSchema>>
  readonly required?: readonly string[]
}

export function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): ObjectSchema {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, unrepresentable: 'any' })
  return json as ObjectSchema
}
