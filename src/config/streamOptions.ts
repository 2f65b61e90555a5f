import { dayMs } from '../market/values.js'
import { type StreamName, streamNames } from '../market/stream.js'
import type { Config } from './resolve.js'

/** The option group of each stream in `streams`, and in `storage` where its table grows with time. */
export const streamOptions = {
  instruments: 'instruments',
  rpi_symbols: 'rpiSymbols',
  tickers: 'tickers',
  order_books: 'orderBooks',
  rpi_order_books: 'rpiOrderBooks',
  fills: 'fills',
  candles: 'candles',
} as const satisfies Record<StreamName, keyof Config['streams']>

export function enabledStreams({ streams }: Config): StreamName[] {
  return streamNames.filter((stream) => streams[streamOptions[stream]].enabled)
}

export function hasArchive({ folder, bucket }: Pick<Config['archive'], 'folder' | 'bucket'>): boolean {
  return folder !== undefined || bucket !== undefined
}

const timeTables = ['tickers', 'order_books', 'rpi_order_books', 'fills', 'candles'] as const
type TimeTable = (typeof timeTables)[number]

type Table = Config['storage'][(typeof streamOptions)[TimeTable]] & {
  /** Rows leave only when they are in the archive, which is for the archiver to say. */
  readonly isArchived: boolean
}
export type Storage = Readonly<Record<TimeTable, Table>> & { readonly rejected_row: Config['storage']['rejectedRows'] }

/** How each table is kept, by its name. */
export function storageOf({ storage, archive }: Config): Storage {
  const kept = timeTables.map((name) => {
    const isArchived = hasArchive(archive) && archive.tables.includes(name)
    return [name, { ...storage[streamOptions[name]], isArchived }] as const
  })
  return { ...(Object.fromEntries(kept) as Record<TimeTable, Table>), rejected_row: storage.rejectedRows }
}

/** How long the table of a stream keeps its rows; null: for ever. */
export function keptMs(storage: Storage, stream: string): number | null {
  const table = timeTables.find((name) => name === stream)
  const retentionDays = table && storage[table].retentionDays
  return retentionDays === undefined ? null : retentionDays * dayMs
}
