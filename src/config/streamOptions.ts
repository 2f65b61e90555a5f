import { type StreamName, streamTraits, type TimeStream, timeStreams } from '../market/stream.js'
import { dayMs } from '../market/values.js'
import type { Config } from './resolve.js'

export function hasArchive({ folder, bucket }: Pick<Config['archive'], 'folder' | 'bucket'>): boolean {
  return folder !== undefined || bucket !== undefined
}

type Table = Config['storage'][(typeof streamTraits)[TimeStream]['options']] & {
  /** Rows leave only when they are in the archive, which is for the archiver to say. */
  readonly isArchived: boolean
}
type Storage = Readonly<Record<TimeStream, Table>> & { readonly rejected_row: Config['storage']['rejectedRows'] }

/** How each table is kept, by its name. */
export function storageOf({ storage, archive }: Config): Storage {
  const kept = timeStreams.map((name) => {
    const isArchived = hasArchive(archive) && archive.tables.includes(name)
    return [name, { ...storage[streamTraits[name].options], isArchived }] as const
  })
  return { ...(Object.fromEntries(kept) as Record<TimeStream, Table>), rejected_row: storage.rejectedRows }
}

/** How long the table of a stream keeps its rows; null: for ever. */
export function keptMs(storage: Storage, stream: StreamName): number | null {
  const table = timeStreams.find((name) => name === stream)
  const retentionDays = table && storage[table].retentionDays
  return retentionDays === undefined ? null : retentionDays * dayMs
}
