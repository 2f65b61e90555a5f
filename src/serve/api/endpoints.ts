import type { z } from 'zod'
import * as contract from './contract.js'
import { queries } from './queries.js'

/**
 * Each path of the JSON API with what may be asked there and what is answered. The routes keep to it, the reference is
 * written from it, and the page's types come from it.
 */
export const endpoints = {
  '/api/status': { query: queries.nothing, response: contract.status },
  '/api/instruments': { query: queries.instruments, response: contract.instruments },
  '/api/instruments/busiest': { query: queries.nothing, response: contract.instruments },
  '/api/instrument': { query: queries.instrument, response: contract.instrument },
  '/api/candles': { query: queries.candles, response: contract.candles },
  '/api/history': { query: queries.history, response: contract.history },
  '/api/calendar': { query: queries.calendar, response: contract.calendar },
  '/api/coverage': { query: queries.coverage, response: contract.coverage },
} as const satisfies Readonly<Record<string, { readonly query: z.ZodType; readonly response: z.ZodType }>>

export type ApiPath = keyof typeof endpoints
export type ResponseOf<Path extends ApiPath> = z.output<(typeof endpoints)[Path]['response']>
/** What may be asked at a path, as the client says it. */
export type Question<Path extends ApiPath> = z.input<(typeof endpoints)[Path]['query']>
export type EventsQuestion = z.input<typeof queries.events>
