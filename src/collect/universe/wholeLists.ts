import type { Batch } from '../../ledger/batch.js'
import { bounds } from '../../market/bounds.js'
import type { StreamName } from '../../market/stream.js'
import { dayMs, type MachineMs } from '../../market/values.js'
import type { Incidents } from '../../runtime/incidents.js'
import { hasMarket } from './planUniverse.js'

/** Streams whose lists are judged, because each names many instruments. */
const judged: ReadonlySet<StreamName> = new Set(['instruments', 'rpi_symbols'])

/** Returns true for a stream whose lists are compared with those before, symbol by symbol. */
export function isJudged(stream: StreamName): boolean {
  return judged.has(stream)
}

/** A list that differs by more than this share from the list before is probably not that of the market. */
const believedShare = 0.1

/** Symbols of a list, and whether each has a market. One without a market is not recorded. */
type Symbols = ReadonlyMap<string, boolean>

/** A list as far as it is known. */
interface KnownList {
  /** Symbols of the newest list that counts. */
  readonly symbols: Symbols
  /** Symbols of a later list that differs too much, and when the first one like it came. */
  readonly doubted?: { readonly symbols: Symbols; readonly since: MachineMs }
  /** Symbols that had a market before many of them went offline at once, and when they did. */
  readonly awaited?: { readonly names: readonly string[]; readonly since: MachineMs }
  /** The list is that of an earlier run, and none has come since. */
  readonly isRecorded?: true
}

/** A list is asked for again within seconds. For so long, one that is cut off may come from a cache. */
const cachedMs = 45_000

/**
 * Decides which lists prove that an instrument is gone, and which may add some. A list that lacks more than a tenth of
 * the list before, or says that they are offline, or adds more than a tenth, removes none and adds none until a later one
 * agrees. What it takes is gone when one agrees that is `cachedMs` younger at least. Lists that are doubted thus add
 * nothing, however many come. The first list of a run is compared with the recorded one. It removes none. Without a
 * recorded one it adds all.
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
    this.#lists.set(key, { symbols: symbolsOf(rows), isRecorded: true })
    return true
  }

  /**
   * Returns true while the next list is wanted soon: the newest one differs too much and a later one decides, or many
   * instruments are offline, whose maintenance may end at any time.
   */
  isPressing(stream: StreamName, target: unknown): boolean {
    const { doubted, awaited } = this.#lists.get(keyOf(stream, target)) ?? {}
    return doubted !== undefined || awaited !== undefined
  }

  /**
   * Marks a list that does not count: instruments that it lacks are not removed. Leaves out its new rows, and counts them
   * as not kept. Other batches are left as they are.
   */
  judge<Target, Row>(batch: Batch<Target, Row>): Batch<Target, Row> {
    const { stream, target, rows, receivedAt } = batch
    if (!isJudged(stream) || rows.length === 0) return batch
    const key = keyOf(stream, target)
    const symbols = symbolsOf(rows)
    const before = this.#lists.get(key)
    const { category = '' } = target as { readonly category?: string }
    const ofCategory = category === '' ? '' : `of ${category} `
    const what = `${stream} list` as const
    const change = changeOf(symbols, before?.symbols ?? symbols)
    const doubted = before?.doubted
    const agrees = doubted !== undefined && isSmall(changeOf(symbols, doubted.symbols))
    const since = agrees ? doubted.since : receivedAt
    if (before === undefined || isSmall(change) || (agrees && (!change.lacksMuch || receivedAt - since >= cachedMs))) {
      const awaited = awaitedOf(symbols, before, receivedAt)
      this.#lists.set(key, { symbols, ...(awaited && { awaited }) })
      if (awaited === undefined) this.#incidents.succeeded(what, category)
      else
        this.#incidents.failed(
          what,
          `many of the ${awaited.names.length} ${ofCategory}are offline, and are not recorded`,
          category,
        )
      return before === undefined || before.isRecorded ? { ...batch, provesNothing: true } : batch
    }
    const { symbols: counting, awaited } = before
    this.#lists.set(key, { symbols: counting, doubted: { symbols, since }, ...(awaited && { awaited }) })
    const { lacksMuch, added } = change
    const effects = [
      ...(lacksMuch ? ['what is missing or offline counts as gone when a later list says the same'] : []),
      ...(added > 0 ? [`${added} new symbols are left out until a later list has them, too`] : []),
    ]
    const sizeOf = (list: Symbols) => (lacksMuch ? marketsOf(list).length : list.size)
    const sizes = `${sizeOf(symbols)} ${ofCategory}after ${sizeOf(counting)}`
    this.#incidents.failed(what, `${sizes}: ${effects.join('; ')}`, category)
    const isTaken = (name: string) => counting.get(name) === true && symbols.get(name) === false
    const known = rows.filter((row) => counting.has(nameOf(row)) && !isTaken(nameOf(row)))
    const unkept = (batch.unkept ?? 0) + rows.length - known.length
    return { ...batch, rows: known, unkept, provesNothing: true }
  }
}

const keyOf = (stream: StreamName, target: unknown) => `${stream} ${JSON.stringify(target)}`

function nameOf(row: unknown): string {
  const { category, symbol } = row as { readonly category?: string; readonly symbol: string }
  return JSON.stringify([category, symbol])
}

function symbolsOf(rows: readonly unknown[]): Symbols {
  return new Map(rows.map((row) => [nameOf(row), hasMarket((row as { readonly status?: string | null }).status)]))
}

function marketsOf(symbols: Symbols): string[] {
  return [...symbols.keys()].filter((name) => symbols.get(name))
}

/**
 * Returns the symbols that had a market before many of them went offline; undefined when they are back or gone. After a
 * day they are not awaited any more, because that is no maintenance.
 */
function awaitedOf(symbols: Symbols, before: KnownList | undefined, now: MachineMs): KnownList['awaited'] {
  const { names: had, since } = before?.awaited ?? { names: marketsOf(before?.symbols ?? symbols), since: now }
  // A recorder may start while all are offline.
  const isStart = before === undefined || before.isRecorded === true
  const names = had.length === 0 && isStart ? [...symbols.keys()] : had
  const offline = names.filter((name) => symbols.get(name) === false).length
  return offline > believedOf(names.length) && now - since < dayMs ? { names, since } : undefined
}

/** A short list may lose one instrument at a time. */
const believedOf = (size: number) => Math.max(1, size * believedShare)

interface Change {
  readonly lacksMuch: boolean
  readonly addsMuch: boolean
  readonly added: number
}

function changeOf(list: Symbols, before: Symbols): Change {
  const recorded = marketsOf(before)
  const lost = recorded.filter((name) => list.get(name) !== true).length
  const missing = [...before.keys()].filter((name) => !list.has(name)).length
  const added = list.size - (before.size - missing)
  return {
    lacksMuch: lost > believedOf(recorded.length) || missing > believedOf(before.size),
    addsMuch: added > Math.max(bounds.newSymbols, before.size * believedShare),
    added,
  }
}

function isSmall({ lacksMuch, addsMuch }: Change): boolean {
  return !lacksMuch && !addsMuch
}
