import { promisify } from 'node:util'
import { brotliCompress, constants } from 'node:zlib'
import type { Outgoing } from './delivery.js'

const compress = promisify(brotliCompress)
/** Below this nobody compresses: it would not make less packets. */
const leastBytes = 1_024
/** The quickest: what the client sees is the same. */
const params = { [constants.BROTLI_PARAM_QUALITY]: 1 }

/** The same answer with its body compressed, for a client that accepts it. */
export async function compressed(answer: Outgoing, acceptEncoding: string | undefined): Promise<Outgoing> {
  const accepts = (acceptEncoding ?? '').split(',').some((name) => name.trim().split(';')[0] === 'br')
  if (!accepts) return answer
  const whole = Buffer.concat(answer.body.map((part) => Buffer.from(part)))
  if (whole.length < leastBytes) return answer
  return {
    ...answer,
    headers: { ...answer.headers, 'content-encoding': 'br' },
    body: [await compress(whole, { params })],
  }
}
