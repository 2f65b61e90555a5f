import { bounds } from '../../market/bounds.js'
import type { Batch } from '../../ledger/batch.js'
import type { StreamName } from '../../market/stream.js'
import type { Incidents } from '../../runtime/incidents.js'

/** Streams whose lists are judged, because each names many instruments. */
const judged: ReadonlySet<StreamName> = new Set(['instruments', 'rpi_symbols'])

/** A list that differs by more than this share from the list before is probably not that of the market. */
const believedShare = 0.1

/**
 * Decides which lists prove that an instrument is gone, and which may add many. A list that lacks more than a tenth of
 * the list before removes none, and one that adds more than a tenth adds none, until the next one agrees. The first
 * list of a run has nothing to be compared with. It adds all, and removes none.
 */
export class WholeLists {
  readonly #incidents: Incidents
  /** Symbols of the newest list that counts, and of a later list that differs too much. */
  readonly #lists = new Map<string, { readonly symbols: ReadonlySet<string>; readonly doubted?: ReadonlySet<string> }>()

  constructor(incidents: Incidents) {
    this.#incidents = incidents
  }

  /**
   * Marks a list that does not count: instruments that it lacks are not removed. Leaves out its new rows if they are too
   * many, and counts them as not kept. Other batches are left as they are.
   */
  judge<Target, Row>(batch: Batch<Target, Row>): Batch<Target, Row> {
    const { stream, target, rows } = batch
    if (!judged.has(stream) || rows.length === 0) return batch
    const key = `${stream} ${JSON.stringify(target)}`
    const symbols = new Set(rows.map(nameOf))
    const before = this.#lists.get(key)
    if (before === undefined) {
      this.#lists.set(key, { symbols })
      return { ...batch, provesNothing: true }
    }
    const what = `${stream} list` as const
    const change = changeOf(symbols, before.symbols)
    const agreesWithDoubted = before.doubted !== undefined && isSmall(changeOf(symbols, before.doubted))
    if (isSmall(change) || agreesWithDoubted) {
      this.#lists.set(key, { symbols })
      this.#incidents.succeeded(what, key)
      return batch
    }
    this.#lists.set(key, { symbols: before.symbols, doubted: symbols })
    const { lacksMuch, addsMuch, added } = change
    const effects = [
      ...(lacksMuch ? ['what is missing counts as gone when the next list lacks it, too'] : []),
      ...(addsMuch ? [`${added} new symbols are left out until the next list has them, too`] : []),
    ]
    this.#incidents.failed(what, `${symbols.size} after ${before.symbols.size}: ${effects.join('; ')}`, key)
    if (!addsMuch) return { ...batch, provesNothing: true }
    const known = rows.filter((row) => before.symbols.has(nameOf(row)))
    const unkept = (batch.unkept ?? 0) + rows.length - known.length
    return { ...batch, rows: known, unkept, provesNothing: true }
  }
}

function nameOf(row: unknown): string {
  const { category, symbol } = row as { readonly category?: string; readonly symbol: string }
  return JSON.stringify([category, symbol])
}

interface Change {
  readonly lacksMuch: boolean
  readonly addsMuch: boolean
  readonly added: number
}

function changeOf(list: ReadonlySet<string>, before: ReadonlySet<string>): Change {
  let missing = 0
  for (const name of before) if (!list.has(name)) missing++
  const added = list.size - (before.size - missing)
  const believed = before.size * believedShare
  // A short list may lose one instrument at a time.
  return { lacksMuch: missing > Math.max(1, believed), addsMuch: added > Math.max(bounds.newSymbols, believed), added }
}

function isSmall({ lacksMuch, addsMuch }: Change): boolean {
  return !lacksMuch && !addsMuch
}
