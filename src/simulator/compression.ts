import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import type { Outgoing } from './delivery.js'

const compress = promisify(brotliCompress)
/** Bytes. Compressing a smaller body would not save packets. */
const minBytes = 1_024
/** The lowest quality, because it is the fastest. The client decodes the same body at any quality. */
const params = { [constants.BROTLI_PARAM_QUALITY]: 1 }

/** Compresses the body with Brotli, if the client accepts it and the body has at least `minBytes`. */
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
