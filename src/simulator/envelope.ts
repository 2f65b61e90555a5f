import type { TimeMs } from '../market/values.js'
import type { Quirks } from './world/quirks.js'
import { mixWide } from './world/hash.js'

/**
 * The envelope around `data`, as the parts of a body. The data's text is passed on as it is: parsing and printing it
 * again would lose what a number type cannot hold.
 */
export function envelope(
  quirks: Quirks,
  code: string,
  message: string,
  requestTime: TimeMs,
  data: string | Buffer,
): readonly (string | Buffer)[] {
  const quotedCode = `"code":${JSON.stringify(code)}`
  const quotedMessage = `"msg":${JSON.stringify(message)}`
  const time = `"requestTime":${requestTime}`
  switch (quirks.envelopeOrderVaries ? mixWide(0xe4, requestTime) % 3 : 0) {
    case 1:
      return ['{"data":', data, `,${quotedCode},${quotedMessage},${time}}`]
    case 2:
      return [`{${time},${quotedMessage},"data":`, data, `,${quotedCode}}`]
    default:
      return [`{${quotedCode},${quotedMessage},${time},"data":`, data, '}']
  }
}
