import { type Batch, isWholeList } from '../../ledger/batch.js'
import type { StreamName } from '../../market/stream.js'
import type { Incidents } from '../../runtime/incidents.js'

/** Streams whose lists are judged, because each names many instruments. */
const judged: ReadonlySet<StreamName> = new Set(['instruments', 'rpi_symbols'])

/** A list that lacks more than this share of the list before is probably cut off. */
const believedShare = 0.1

/**
 * Decides which lists prove that an instrument is gone. A list that lacks more than a tenth of the list before counts
 * only if the next one agrees. Until then it adds and changes instruments, and removes none. The first list of a run
 * has nothing to be compared with, so it removes none either.
 */
export class WholeLists {
  readonly #incidents: Incidents
  /** Symbols of the newest list that counts, and of a later list that lacks more than a tenth of them. */
  readonly #lists = new Map<string, { readonly symbols: ReadonlySet<string>; readonly doubted?: ReadonlySet<string> }>()

  constructor(incidents: Incidents) {
    this.#incidents = incidents
  }

  /**
   * Marks a list that does not count: instruments that it lacks are not removed. Other batches are left as they are.
   */
  judge<Target, Row>(batch: Batch<Target, Row>): Batch<Target, Row> {
    const { stream, target, rows } = batch
    if (!judged.has(stream) || !isWholeList(batch)) return batch
    const key = `${stream} ${JSON.stringify(target)}`
    const symbols = new Set(rows.map((row) => JSON.stringify(nameOf(row))))
    const before = this.#lists.get(key)
    const isCredible =
      before !== undefined &&
      (!lacksMuch(symbols, before.symbols) || (before.doubted && !lacksMuch(symbols, before.doubted)))
    if (before === undefined || isCredible === true) this.#lists.set(key, { symbols })
    else this.#lists.set(key, { symbols: before.symbols, doubted: symbols })
    const what = `${stream} list`
    if (isCredible === true) this.#incidents.succeeded(what, key)
    else if (before !== undefined)
      this.#incidents.failed(
        what,
        `${symbols.size} after ${before.symbols.size}: what is missing counts as gone when the next list lacks it, too`,
        key,
      )
    return isCredible === true ? batch : { ...batch, provesNothing: true }
  }
}

function nameOf(row: unknown): unknown {
  const { category, symbol } = row as { readonly category?: string; readonly symbol: string }
  return [category, symbol]
}

function lacksMuch(list: ReadonlySet<string>, before: ReadonlySet<string>): boolean {
  let missing = 0
  for (const name of before) if (!list.has(name)) missing++
  // A short list may lose one instrument at a time.
  return missing > Math.max(1, before.size * believedShare)
}
