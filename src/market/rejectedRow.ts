import { createHash } from 'node:crypto'
import { oneLine } from './values.js'

/** Largest part of a row's text that is kept, in bytes. A digest stands for the whole text. */
const maxRawBytes = 4_096

/** A row of a response that could not be understood completely. It is kept so that the cause can be found. */
export interface RejectedRow {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
  readonly reason: string
  /** The start of the row's JSON text, at most 4,096 bytes, with numbers as they were sent. */
  readonly raw: string
  /** SHA-256 of the whole text, in hexadecimal digits. */
  readonly rawSha256: string
  /** Length of the whole text in bytes. */
  readonly rawBytes: number
  /** The row was stored without the part that could not be understood, or that is beyond a bound. */
  readonly isRowStored?: true
}

interface Request {
  readonly operation: string
  readonly parameters: Readonly<Record<string, string>>
}

/** Keeps the start of a row's text, with the digest and length of the whole. No row takes much space then. */
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

/** Returns the start of a text, cut between two characters, without NUL, which no text of the database can hold. */
function startOf(bytes: Buffer): string {
  let end = Math.min(bytes.length, maxRawBytes)
  while (end < bytes.length && ((bytes[end] as number) & 0xc0) === 0x80) end--
  return bytes.toString('utf8', 0, end).replaceAll('\0', '\ufffd')
}
