import type { IncomingMessage, ServerResponse } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import { z } from 'zod'
import type { Control } from './control.js'
import { categories } from '../market/category.js'
import { faultSchema } from './faults.js'
import { type Quirks, quirksSchema } from './world/quirks.js'
import type { ListingRequest } from './world/listing.js'
import { listingRequestSchema } from './world/listingRequest.js'
import { messageOf } from '../runtime/text.js'

const splitSchema = z.strictObject({
  category: z.enum(categories),
  symbol: z.string(),
  factor: z.number().positive(),
  atMs: z.number().int().optional(),
  relists: z.boolean().optional(),
})

/** The control interface for other processes, under /simulator. It is not part of the service and never limited. */
export async function respondToControl(
  control: Control,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const body = request.method === 'POST' ? await readText(request) : ''
  switch (`${request.method} ${path}`) {
    case 'GET /simulator/report':
      return json(response, 200, control.report())
    case 'POST /simulator/report/reset':
      control.resetReport()
      return json(response, 200, {})
    case 'POST /simulator/faults':
      return change(response, body, z.array(faultSchema), (faults) => control.setFaults(faults))
    case 'POST /simulator/quirks':
      return change(response, body, quirksSchema.partial(), (_, given) => control.setQuirks(given as Partial<Quirks>))
    case 'POST /simulator/instruments':
      return change(response, body, z.array(listingRequestSchema), (requests) => {
        for (const request of requests) control.list({ launchTime: Date.now(), ...(request as ListingRequest) })
      })
    case 'POST /simulator/splits':
      return change(response, body, splitSchema, ({ category, symbol, factor, atMs = Date.now(), relists }) => ({
        at: control.split(category, symbol, factor, atMs, relists),
      }))
    case 'GET /simulator/journal': {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' })
      for (const served of control.journal()) response.write(`${JSON.stringify(served)}\n`)
      response.end()
      return
    }
    case 'GET /simulator/stalls':
      return json(response, 200, control.stalls())
    case 'POST /simulator/journal/clear':
      control.clearJournal()
      return json(response, 200, {})
    default:
      return json(response, 404, { error: `${request.method} ${path} is not part of the control interface` })
  }
}

/** Checks a request body and does what it asks for; otherwise says in one line what is wrong with it. */
function change<Value>(
  response: ServerResponse,
  body: string,
  schema: z.ZodType<Value>,
  apply: (value: Value, given: unknown) => object | void,
): void {
  let given: unknown
  try {
    given = JSON.parse(body)
  } catch {
    return json(response, 400, { error: 'the body must be JSON' })
  }
  const parsed = schema.safeParse(given)
  if (!parsed.success) return json(response, 400, { error: z.prettifyError(parsed.error).replaceAll('\n', ' ') })
  try {
    json(response, 200, apply(parsed.data, given) ?? {})
  } catch (error) {
    // The request may name an instrument that does not exist, for example.
    json(response, 400, { error: messageOf(error) })
  }
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}
