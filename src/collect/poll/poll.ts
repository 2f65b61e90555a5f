import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ExchangeClient, Page, RequestOptions } from '../../exchange/client.js'
import { rejectedRow } from '../../market/rejectedRow.js'
import type { RejectedRow } from '../../market/rejectedRow.js'
import type { Batch } from '../../store/batch/batch.js'
import type { StreamDefinition } from '../streams.js'

/** Longer uninterrupted work would delay requests that are due. */
const sliceMs = 3

/**
 * Asks for a target once and turns the response into what the database shall hold. Errors are the client's.
 *
 * @param observe is told of every response
 */
export async function poll<Target, Payload, Row>(
  client: ExchangeClient,
  stream: StreamDefinition<Target, Payload, Row>,
  target: Target,
  options: RequestOptions,
  observe: (page: Page<unknown>) => void = () => undefined,
): Promise<Batch<Target, Row>> {
  const page = await stream.fetch(client, target, options)
  observe(page)
  const rows: Row[] = []
  const rejected: RejectedRow[] = [...page.rejected]
  let sliceStart = performance.now()
  for (const payload of page.rows) {
    try {
      rows.push(stream.normalize(payload, target, page))
    } catch (error) {
      rejected.push(rejectedPayload(page, payload, error))
    }
    if (performance.now() - sliceStart > sliceMs) {
      await nextTurn()
      sliceStart = performance.now()
    }
  }
  const { requestTime, receivedAt } = page
  const unkept = page.rejectedUnkept + page.surplusRows
  const nothing = { proven: [], gaps: [], isPart: false }
  return { stream: stream.name, target, requestTime, receivedAt, rows, rejected, unkept, ...nothing }
}

function rejectedPayload(page: Page<unknown>, payload: unknown, error: unknown): RejectedRow {
  const reason = error instanceof Error ? error.message : String(error)
  return rejectedRow(page, reason, JSON.stringify(payload))
}
