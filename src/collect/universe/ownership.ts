import type { Category, InstrumentKey } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'

/** Part of the work that this recorder does, where several recorders share a database. */
export interface Ownership {
  /** Returns true if this recorder asks for a stream of an instrument. */
  hasInstrument(stream: StreamName, key: InstrumentKey): boolean
  /** Returns true if this recorder asks for the list of a category. `category` is null for a stream's only list. */
  hasList(stream: StreamName, category: Category | null): boolean
  /** Returns true if the recorder that asked for the stream is gone, and no other asks for it. */
  isOrphan(stream: StreamName, key: InstrumentKey): boolean
}

/** Ownership of a recorder that shares with no other. */
export const ownsEverything: Ownership = { hasInstrument: () => true, hasList: () => true, isOrphan: () => false }
