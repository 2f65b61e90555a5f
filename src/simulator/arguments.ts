import Table from 'cli-table3'
import type { z } from 'zod'
import { operations } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import { type Fault, faultKinds, faultSchema } from './faults.js'
import type { Report } from './limits.js'
import { type Quirks, quirksSchema } from './world/quirks.js'

/**
 * Parses a fault from the command line: `KIND[:name=value,...]`, with several operations joined by `+`. `after` is in
 * milliseconds from now, and `for` in milliseconds from there. `fromMs` and `toMs` are moments of the service's clock.
 * Throws an Error that says in one line what is wrong.
 */
export function parseFault(text: string, now: TimeMs): Fault {
  const [kind = '', ...rest] = text.split(':')
  if (!faultKinds.some((known) => known === kind)) throw new Error(unknown('fault', kind, faultKinds))
  const fields: Record<string, unknown> = { kind }
  for (const pair of rest.join(':').split(',').filter(Boolean)) {
    const [name, value] = splitOnce(pair)
    if (value === undefined) throw new Error(`"${pair}" must be name=value, such as probability=0.1.`)
    fields[name] = name === 'operations' ? value.split('+') : textFields.has(name) ? value : jsonOrText(value)
  }
  const { after, for: duration, ...fault } = fields
  if (typeof after === 'number') fault['fromMs'] = now + after
  if (typeof duration === 'number') fault['toMs'] = now + (typeof after === 'number' ? after : 0) + duration
  const parsed = faultSchema.safeParse(kind === 'latency' ? { minMs: 0, ...fault } : fault)
  if (!parsed.success) throw new Error(`${kind}: ${oneLine(parsed.error)}`)
  return parsed.data
}

/** Fields whose values are text even if they look like a number. */
const textFields = new Set(['msg', 'body'])

/** Parses a quirk from the command line: `NAME` switches it on, `NAME=VALUE` sets it to JSON or a word. */
export function parseQuirk(text: string): Partial<Quirks> {
  const [name, value = 'true'] = splitOnce(text)
  const names = Object.keys(quirksSchema.shape)
  if (!names.includes(name)) throw new Error(unknown('quirk', name, names))
  const parsed = quirksSchema.partial().safeParse({ [name]: jsonOrText(value) })
  if (!parsed.success) throw new Error(oneLine(parsed.error))
  // Only the named quirk is returned, because the schema has filled in the others.
  return Object.fromEntries(Object.entries(parsed.data).filter(([key]) => key === name))
}

function splitOnce(text: string): readonly [string, string?] {
  const index = text.indexOf('=')
  return index === -1 ? [text] : [text.slice(0, index), text.slice(index + 1)]
}

function jsonOrText(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

function unknown(what: string, name: string, known: readonly string[]): string {
  return `There is no ${what} "${name}". Known are ${known.join(', ')}.`
}

function oneLine(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join('.') || 'value'}: ${issue.message}`).join('; ')
}

/** Returns the report as a table for people: a row for each operation that was used, and one for all together. */
export function reportTable(report: Report): string {
  const table = new Table({
    head: ['source', 'operation', 'requests', 'rejected', 'highest/s', 'highest/min', 'blocks'],
    colAligns: ['left', 'left', 'right', 'right', 'right', 'right', 'right'],
    style: { head: [], border: [] },
  })
  for (const [source, { operations: used, overall }] of Object.entries(report)) {
    for (const operation of operations) {
      const { requests, rejected, highestPerSecond } = used[operation]
      if (requests > 0) table.push([source, operation, requests, rejected, highestPerSecond, '', ''])
    }
    const { requests, rejected, highestPerSecond, highestPerMinute, blocks } = overall
    table.push([source, 'all', requests, rejected, highestPerSecond, highestPerMinute, blocks])
  }
  return table.toString()
}
