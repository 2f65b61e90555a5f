import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import type { Outgoing } from './delivery.js'

const compress = promisify(brotliCompress)
/** Below this nobody compresses: it would not make less packets. */
const minBytes = 1_024
/** The quickest: what the client sees is the same. */
const params = { [constants.BROTLI_PARAM_QUALITY]: 1 }

/** The same response with its body compressed, for a client that accepts it. */
export async function compressed(response: Outgoing, acceptEncoding: string | undefined): Promise<Outgoing> {
  const accepts = (acceptEncoding ?? '').split(',').some((name) => name.trim().split(';')[0] === 'br')
  if (!accepts) return response
  const whole = Buffer.concat(response.body.map((part) => Buffer.from(part)))
  if (whole.length < minBytes) return response
  return {
    ...response,
    headers: { ...response.headers, 'content-encoding': 'br' },
    body: [await compress(whole, { params })],
  }
}
