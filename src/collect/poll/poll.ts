import type { ExchangeClient, Page } from '../../exchange/client.js'
import type { RequestOptions } from '../../exchange/sender.js'
import type { Batch } from '../../store/batch/batch.js'
import type { StreamDefinition } from '../streams.js'

/**
 * Asks for a target once and turns the response into what the database shall hold. Errors are the client's.
 *
 * @param observe is told of every response
 */
export async function poll<Target, Row>(
  client: ExchangeClient,
  stream: StreamDefinition<Target, Row>,
  target: Target,
  options: RequestOptions,
  observe: (page: Page<unknown>) => void = () => undefined,
): Promise<Batch<Target, Row>> {
  const page = await stream.fetch(client, target, options)
  observe(page)
  const { requestTime, receivedAt, rows, rejected } = page
  const unkept = page.rejectedUnkept + page.surplusRows
  const nothing = { proven: [], gaps: [], isPart: false }
  return { stream: stream.name, target, requestTime, receivedAt, rows, rejected, unkept, ...nothing }
}
