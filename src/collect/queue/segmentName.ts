import { type StreamName, streamNames } from '../../market/stream.js'
import type { ServiceMs } from '../../market/values.js'
import { type Disk, isFullDisk } from '../../runtime/disk.js'
import { ownerPattern } from '../../runtime/fileOwner.js'

/** Names a segment by the service's time, so that the order of names is that of creation. */
export function segmentName(createdAt: ServiceMs, sequence: number, stream: StreamName, owner: string): string {
  return `${String(createdAt).padStart(15, '0')}-${String(sequence).padStart(9, '0')}.${stream}.${owner}.seg`
}

const segmentPattern = new RegExp(String.raw`^(\d{15})-\d{9}\.([a-z_]+)\.(${ownerPattern})\.seg$`)

/** Reads a segment's name; null when it is another file. */
export function parseSegmentName(name: string): { readonly stream: StreamName; readonly owner: string } | null {
  const [, , found, owner] = segmentPattern.exec(name) ?? []
  const stream = streamNames.find((one) => one === found)
  return stream === undefined || owner === undefined ? null : { stream, owner }
}

/** Rejects if this file cannot be written. A full disk is no reason, because older segments make room. */
export async function requireWritable(disk: Disk, file: string): Promise<void> {
  try {
    await (await disk.open(file, 'ax', 0o600)).close()
    await disk.rm(file, { force: true })
  } catch (error) {
    if (!isFullDisk(error)) throw error
  }
}

/** Reads from a segment's name when the segment was created. */
export function createdAtOf(name: string): ServiceMs {
  return Number.parseInt(name, 10) as ServiceMs
}
