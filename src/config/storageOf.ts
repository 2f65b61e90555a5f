import { hasArchive } from './archiveSchema.js'
import type { Config } from './resolve.js'

type TableName = Exclude<keyof Config['storage'], 'rejectedRows'>
type Table = Config['storage'][TableName] & {
  /** Rows leave only when they are in the archive, which is for the archiver to say. */
  readonly isArchived?: boolean
}
export type Storage = Omit<Config['storage'], TableName> & Readonly<Record<TableName, Table>>

const archivedAs = {
  tickers: 'tickers',
  order_books: 'orderBooks',
  rpi_order_books: 'rpiOrderBooks',
  fills: 'fills',
  candles: 'candles',
} as const

/** How tables are kept, archived ones marked. */
export function storageOf({ storage, archive }: Config): Storage {
  if (!hasArchive(archive)) return storage
  const marked = Object.entries(archivedAs)
    .filter(([table]) => archive.tables.some((name) => name === table))
    .map(([, setting]) => [setting, { ...storage[setting], isArchived: true }] as const)
  return { ...storage, ...Object.fromEntries(marked) }
}
