import type { IncomingMessage, ServerResponse } from 'node:http'
import { text as readText } from 'node:stream/consumers'
import { z } from 'zod'
import type { Control } from './control.js'
import { type Fault, faultSchema } from './faults.js'

/** The control interface for other processes, under /simulator. It is not part of the service and never limited. */
export async function answerControl(
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
    case 'POST /simulator/faults': {
      const faults = parsedFaults(body)
      if (typeof faults === 'string') return json(response, 400, { error: faults })
      control.setFaults(faults)
      return json(response, 200, {})
    }
    case 'GET /simulator/journal': {
      response.writeHead(200, { 'content-type': 'application/x-ndjson' })
      for (const answer of control.journal()) response.write(`${JSON.stringify(answer)}\n`)
      response.end()
      return
    }
    case 'POST /simulator/journal/clear':
      control.clearJournal()
      return json(response, 200, {})
    default:
      return json(response, 404, { error: `${request.method} ${path} is not part of the control interface` })
  }
}

/** The faults of a request body, or what is wrong with it in one line. */
function parsedFaults(body: string): readonly Fault[] | string {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return 'the body must be a JSON list of faults'
  }
  const parsed = z.array(faultSchema).safeParse(value)
  return parsed.success ? parsed.data : z.prettifyError(parsed.error).replaceAll('\n', ' ')
}

function json(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(value))
}
