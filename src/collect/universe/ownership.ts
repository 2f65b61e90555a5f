import type { Category, InstrumentKey } from '../../market/category.js'
import type { StreamName } from '../../market/stream.js'

/** What of the work is this recorder's own, and not that of another one on the same database. */
export interface Ownership {
  /** Whether it asks for a stream of an instrument. */
  hasInstrument(stream: StreamName, key: InstrumentKey): boolean
  /** Whether it asks for a list: that of a category, or the only one that there is. */
  hasList(stream: StreamName, category: Category | null): boolean
  /** Whether whoever asked for it until now is gone, so that nobody does. */
  isOrphan(stream: StreamName, key: InstrumentKey): boolean
}

/** A recorder that shares with nobody. */
export const ownsEverything: Ownership = { hasInstrument: () => true, hasList: () => true, isOrphan: () => false }
