import { createHash } from 'node:crypto'
import type { RejectedRow } from '../market/rejectedRow.js'
import { maxRawBytes } from './bounds.js'
import { oneLine } from './errors.js'

interface Request {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
}

/** Keeps the start of a row's text, and of the whole its digest and length: whatever is sent, little is stored. */
export function rejectedRow({ operation, parameters }: Request, reason: string, text: string | Buffer): RejectedRow {
  const bytes = typeof text === 'string' ? Buffer.from(text) : text
  return {
    operation,
    parameters,
    reason: oneLine(reason),
    raw: startOf(bytes),
    rawSha256: createHash('sha256').update(bytes).digest('hex'),
    rawBytes: bytes.length,
  }
}

/** Cut between two characters. */
function startOf(bytes: Buffer): string {
  if (bytes.length <= maxRawBytes) return bytes.toString('utf8')
  let end = maxRawBytes
  while (((bytes[end] as number) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end)
}
