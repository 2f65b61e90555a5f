import type { Batch } from '../../ledger/batch.js'
import { bounds } from '../../market/bounds.js'
import type { StreamName } from '../../market/stream.js'
import type { MachineMs } from '../../market/values.js'
import type { Incidents } from '../../runtime/incidents.js'

/** Streams whose lists are judged, because each names many instruments. */
const judged: ReadonlySet<StreamName> = new Set(['instruments', 'rpi_symbols'])

/** A list that differs by more than this share from the list before is probably not that of the market. */
const believedShare = 0.1

/** A list as far as it is known. */
interface KnownList {
  /** Symbols of the newest list that counts. */
  readonly symbols: ReadonlySet<string>
  /** Symbols of a later list that differs too much, and when the first one like it came. */
  readonly doubted?: { readonly symbols: ReadonlySet<string>; readonly since: MachineMs }
  /** The list is that of an earlier run, and none has come since. */
  readonly isRecorded?: true
}

/** A list is asked for again within seconds. For so long, one that is cut off may come from a cache. */
const cachedMs = 45_000

/**
 * Decides which lists prove that an instrument is gone, and which may add some. A list that lacks more than a tenth of
 * the list before, or adds more than a tenth, removes none and adds none until a later one agrees. What it lacks is gone
 * when one agrees that is `cachedMs` younger at least. Lists that are doubted thus add nothing, however many come. The
 * first list of a run is compared with the recorded one. It removes none. Without a recorded one it adds all.
 */
export class WholeLists {
  readonly #incidents: Incidents
  readonly #lists = new Map<string, KnownList>()

  constructor(incidents: Incidents) {
    this.#incidents = incidents
  }

  /** Takes the list that is recorded, to compare the first one with. Returns false if it is none, or comes too late. */
  recorded({ stream, target, rows }: Pick<Batch, 'stream' | 'target' | 'rows'>): boolean {
    const key = keyOf(stream, target)
    if (rows.length === 0 || this.#lists.has(key)) return false
    this.#lists.set(key, { symbols: new Set(rows.map(nameOf)), isRecorded: true })
    return true
  }

  /** Returns true while the newest list differs too much. A later one decides. */
  isDoubted(stream: StreamName, target: unknown): boolean {
    return this.#lists.get(keyOf(stream, target))?.doubted !== undefined
  }

  /**
   * Marks a list that does not count: instruments that it lacks are not removed. Leaves out its new rows, and counts them
   * as not kept. Other batches are left as they are.
   */
  judge<Target, Row>(batch: Batch<Target, Row>): Batch<Target, Row> {
    const { stream, target, rows, receivedAt } = batch
    if (!judged.has(stream) || rows.length === 0) return batch
    const key = keyOf(stream, target)
    const symbols = new Set(rows.map(nameOf))
    const before = this.#lists.get(key)
    if (before === undefined) {
      this.#lists.set(key, { symbols })
      return { ...batch, provesNothing: true }
    }
    const what = `${stream} list` as const
    const { category = '' } = target as { readonly category?: string }
    const change = changeOf(symbols, before.symbols)
    const { doubted } = before
    const agrees = doubted !== undefined && isSmall(changeOf(symbols, doubted.symbols))
    const since = agrees ? doubted.since : receivedAt
    if (isSmall(change) || (agrees && (!change.lacksMuch || receivedAt - since >= cachedMs))) {
      this.#lists.set(key, { symbols })
      this.#incidents.succeeded(what, category)
      return before.isRecorded ? { ...batch, provesNothing: true } : batch
    }
    this.#lists.set(key, { symbols: before.symbols, doubted: { symbols, since } })
    const { lacksMuch, added } = change
    const effects = [
      ...(lacksMuch ? ['what is missing counts as gone when a later list lacks it, too'] : []),
      ...(added > 0 ? [`${added} new symbols are left out until a later list has them, too`] : []),
    ]
    const sizes = `${symbols.size} ${category === '' ? '' : `of ${category} `}after ${before.symbols.size}`
    this.#incidents.failed(what, `${sizes}: ${effects.join('; ')}`, category)
    const known = rows.filter((row) => before.symbols.has(nameOf(row)))
    const unkept = (batch.unkept ?? 0) + rows.length - known.length
    return { ...batch, rows: known, unkept, provesNothing: true }
  }
}

const keyOf = (stream: StreamName, target: unknown) => `${stream} ${JSON.stringify(target)}`

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
