import type { ExchangeClient, Page, RequestOptions } from '../../exchange/client.js'
import type { RejectedRow } from '../../market/rejectedRow.js'
import type { Batch } from '../sink/batch.js'
import type { StreamDefinition } from '../streams.js'

/**
 * Asks for a target once and turns the answer into what the database shall hold. Errors are the client's.
 *
 * @param observe is told of every answer
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
  for (const payload of page.rows) {
    try {
      rows.push(stream.normalize(payload, target, page))
    } catch (error) {
      rejected.push(rejectedPayload(page, payload, error))
    }
  }
  const { requestTime, receivedAt } = page
  return { stream: stream.name, target, requestTime, receivedAt, rows, rejected, proven: [], gaps: [], isPart: false }
}

function rejectedPayload(page: Page<unknown>, payload: unknown, error: unknown): RejectedRow {
  const { operation, parameters } = page
  const reason = error instanceof Error ? error.message : String(error)
  return { operation, parameters, reason, raw: JSON.stringify(payload) }
}
