import { promisify } from 'node:util'
import { crc32, deflateRaw, inflateRaw } from 'node:zlib'
import type { Batch } from '../../ledger/batch.js'

/**
 * A record on disk: a header of 16 bytes, then the body.
 *
 *     magic (4) | length of the body (4) | CRC-32 of the body (4) | CRC-32 of the 12 bytes before (4) | body
 *
 * Wherever something is damaged, the next magic whose header vouches for itself is looked for. No embedded store that is kept well does this without native
 * code and an install script, and a log that is only ever appended to, read from its start and deleted needs no more.
 */
const magic = Buffer.from([0xff, 0xfe, 0x6d, 0x72])
const headerBytes = 16

/** Everything that is read from disk fits into this, so that a damaged length cannot ask for all the memory. */
const maxBodyBytes = 256 * 1024 * 1024

export function recordHeader(body: Uint8Array): Buffer {
  if (body.length > maxBodyBytes) {
    throw new RangeError(`a spooled record may have ${maxBodyBytes} bytes, got ${body.length}`)
  }
  const header = Buffer.alloc(headerBytes)
  magic.copy(header)
  header.writeUInt32LE(body.length, 4)
  header.writeUInt32LE(crc32(body), 8)
  header.writeUInt32LE(crc32(header.subarray(0, 12)), 12)
  return header
}

export function recordBytes(body: Uint8Array): number {
  return headerBytes + body.length
}

interface ScannedRecords {
  /** Whole records in their order; they share the memory of what was scanned. */
  readonly records: readonly Buffer[]
  /** How many stretches could not be read: each was at least one record, or a part of one. */
  readonly damagedStretches: number
  readonly damagedBytes: number
}

/** Reads what can be read. Never throws, whatever the bytes are. */
export function scanRecords(bytes: Buffer): ScannedRecords {
  const records: Buffer[] = []
  let damagedStretches = 0
  let damagedBytes = 0
  let isInDamage = false
  for (let offset = 0; offset < bytes.length;) {
    const length = bodyLength(bytes, offset)
    const start = offset + headerBytes
    const body = length === undefined ? undefined : bytes.subarray(start, start + length)
    if (body !== undefined && body.length === length && crc32(body) === bytes.readUInt32LE(offset + 8)) {
      records.push(body)
      isInDamage = false
      offset = start + length
      continue
    }
    // The length is not followed: if the record was cut short, the next one begins before its end.
    const end = nextHeader(bytes, offset + 1)
    if (!isInDamage || body !== undefined) damagedStretches++
    isInDamage = true
    damagedBytes += end - offset
    offset = end
  }
  return { records, damagedStretches, damagedBytes }
}

/** Where the next undamaged header begins; the end of the bytes when there is none. */
function nextHeader(bytes: Buffer, from: number): number {
  for (let offset = bytes.indexOf(magic, from); offset !== -1; offset = bytes.indexOf(magic, offset + 1)) {
    if (bodyLength(bytes, offset) !== undefined) return offset
  }
  return bytes.length
}

/** The length that the header at `offset` states, if there is one and it is undamaged. */
function bodyLength(bytes: Buffer, offset: number): number | undefined {
  if (offset + headerBytes > bytes.length) return undefined
  if (bytes.compare(magic, 0, magic.length, offset, offset + magic.length) !== 0) return undefined
  if (crc32(bytes.subarray(offset, offset + 12)) !== bytes.readUInt32LE(offset + 12)) return undefined
  const length = bytes.readUInt32LE(offset + 4)
  return length <= maxBodyBytes ? length : undefined
}

/** A batch is made of one response, which is bounded; a record that unpacks to more is damaged. */
const maxBatchBytes = 128 * 1024 * 1024
const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

export function pack(batch: Batch): Promise<Buffer> {
  return deflate(JSON.stringify(batch), { level: 1 })
}

/** Rejects when the record is not a batch. */
export async function unpack(record: Buffer): Promise<Batch> {
  return JSON.parse((await inflate(record, { maxOutputLength: maxBatchBytes })).toString()) as Batch
}
