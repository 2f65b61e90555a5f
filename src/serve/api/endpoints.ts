import type { z } from 'zod'
import * as contract from './contract.js'
import { queries } from './queries.js'

/**
 * Each path of the JSON API with what may be asked there and what is answered. The routes keep to it, the reference is
 * written from it, and the page's types come from it.
 */
export const endpoints = {
  '/api/status': { query: queries.nothing, answer: contract.status },
  '/api/instruments': { query: queries.instruments, answer: contract.instruments },
  '/api/instruments/busiest': { query: queries.nothing, answer: contract.instruments },
  '/api/instrument': { query: queries.instrument, answer: contract.instrument },
  '/api/candles': { query: queries.candles, answer: contract.candles },
  '/api/history': { query: queries.history, answer: contract.history },
  '/api/calendar': { query: queries.calendar, answer: contract.calendar },
  '/api/coverage': { query: queries.coverage, answer: contract.coverage },
} as const satisfies Readonly<Record<string, { readonly query: z.ZodType; readonly answer: z.ZodType }>>

export type ApiPath = keyof typeof endpoints
export type Answer<Path extends ApiPath> = z.output<(typeof endpoints)[Path]['answer']>
/** What may be asked at a path, as the client says it. */
export type Question<Path extends ApiPath> = z.input<(typeof endpoints)[Path]['query']>
export type EventsQuestion = z.input<typeof queries.events>
