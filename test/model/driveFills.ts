import { type Kysely, sql } from 'kysely'
import fc from 'fast-check'
import type { ExchangeClient, Page as ClientPage } from '../../src/exchange/client.js'
import type { Database } from '../../src/db/schema.js'
import { fillHistory } from '../../src/history/pastFills.js'
import { historyLateMs } from '../../src/ledger/storePastFills.js'
import { storeBatch } from '../../src/ledger/storeBatches.js'
import { storeCandles } from '../../src/ledger/storeCandles.js'
import { rejectedRow, type Fill as StoredFill } from '../../src/market/rows.js'
import { minuteMs } from '../../src/market/values.js'
import { batchOf } from '../support/batches.js'
import { aCandle, aFill, someTime } from '../support/marketRows.js'
import { FillModel } from './fills.js'
import type { Fill, Operation, Page } from './runs.js'
import { intersect, type Span, subtract, unite } from './spans.js'

/** What happens to the recorder, and how the service answers it. */
type Step =
  | { readonly does: 'live'; readonly lie: Lie; readonly isKilled: boolean }
  | { readonly does: 'two writers'; readonly lie: Lie }
  | { readonly does: 'history'; readonly lie: Lie }
  | { readonly does: 'replay'; readonly which: number }
  | { readonly does: 'candle'; readonly minute: number; readonly extra: number }

/** A place among the rows of a response, from 0 to 1, that is not as it was. */
interface Lie {
  readonly leavesOut: number | null
  readonly changes: number | null
  /** One that cannot be understood. */
  readonly breaks: number | null
  /** True to leave out one of those that are stored. */
  readonly isOfStored: boolean
  /** The page of a walk through the history that is not as it was; null if each is. */
  readonly ofPage: number | null
}

export interface Sequence {
  /** Pauses between fills. */
  readonly pauses: readonly number[]
  readonly pageRows: Readonly<Record<Operation, number>>
  readonly isOldestFirst: boolean
  /** How far rows leave the order of their times. */
  readonly disorderMs: number
  /** Every fill with such a number is never shown. */
  readonly hidesEach: number | null
  /** True if the history shows its newest rows, whatever is asked for. */
  readonly ignoresBounds: boolean
  readonly steps: readonly { readonly after: number; readonly step: Step }[]
}

const place = fc.double({ min: 0, max: 0.999, noNaN: true })
const sometimes = <Value>(value: fc.Arbitrary<Value>, weight = 1) =>
  fc.oneof({ weight: 9, arbitrary: fc.constant(null) }, { weight, arbitrary: value })
const lieAbout = (leavesOut: fc.Arbitrary<number | null>) =>
  fc.record({
    leavesOut,
    changes: sometimes(place),
    breaks: sometimes(place),
    isOfStored: fc.boolean(),
    ofPage: fc.constantFrom(null, null, 0, 1, 2, 3),
  })
const lie: fc.Arbitrary<Lie> = lieAbout(sometimes(place))
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 10, arbitrary: fc.record({ does: fc.constant('live' as const), lie, isKilled: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('two writers' as const), lie }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant('history' as const), lie: lieAbout(sometimes(place, 4)) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('replay' as const), which: place }) },
  {
    weight: 4,
    arbitrary: fc.record({
      does: fc.constant('candle' as const),
      minute: fc.integer({ min: 0, max: 4 }),
      extra: fc.constantFrom(0, 0, 0, 1),
    }),
  },
)

export const sequence: fc.Arbitrary<Sequence> = fc.record({
  pauses: fc.array(fc.constantFrom(0, 1, 400, 1_500, 3_000, 3_000, 25_000), { minLength: 30, maxLength: 120 }),
  pageRows: fc.record({ live: fc.integer({ min: 2, max: 40 }), history: fc.integer({ min: 3, max: 40 }) }),
  isOldestFirst: fc.boolean(),
  disorderMs: fc.constantFrom(0, 0, 900),
  hidesEach: fc.constantFrom(null, null, null, 7),
  ignoresBounds: fc.constantFrom(false, false, false, false, false, false, false, true),
  steps: fc.array(fc.record({ after: fc.constantFrom(0, 1_000, 5_000, 12_000, 30_000, 90_000), step }), {
    minLength: 3,
    maxLength: 14,
  }),
})

/** Drives the ledger and the model with one sequence. Resolves to the first disagreement; null without one. */
export async function disagreement(db: Kysely<Database>, drawn: Sequence, symbol: string): Promise<string | null> {
  return new Drive(db, drawn, symbol).run()
}

const start = Math.ceil(someTime / minuteMs) * minuteMs
const category = 'SPOT'
const maxRequests = 500

class Drive {
  readonly #db: Kysely<Database>
  readonly #drawn: Sequence
  readonly #symbol: string
  readonly #tape: readonly Fill[]
  readonly #history: ReturnType<typeof fillHistory>
  /** Models of every order in which the responses may have come. */
  #models: FillModel[] = [new FillModel()]
  readonly #pages: Page[] = []
  #now = start
  #requests = 0
  #pagesOfWalk = 0
  #isProbe = false

  constructor(db: Kysely<Database>, drawn: Sequence, symbol: string) {
    this.#db = db
    this.#drawn = drawn
    this.#symbol = symbol
    this.#history = fillHistory(db)
    let time = start
    this.#tape = drawn.pauses.map((pause, index) => ({ id: String(index), time: (time += pause), price: 10, size: 1 }))
  }

  async run(): Promise<string | null> {
    for (const [index, { after, step: drawnStep }] of this.#drawn.steps.entries()) {
      this.#now += after
      await this.#take(drawnStep)
      const wrong = await this.#compare()
      if (wrong !== null) return `after step ${index} (${drawnStep.does}): ${wrong}`
    }
    return null
  }

  async #take(taken: Step): Promise<void> {
    if (taken.does === 'live') {
      const page = this.#livePage(taken.lie)
      // Rows that cannot be understood are kept in a transaction of their own.
      if (taken.isKilled && page.unread.length === 0) await this.#storeInVain(page)
      await this.#storeLive(page)
      this.#tell(page)
    } else if (taken.does === 'two writers') {
      const pages = [this.#livePage(taken.lie), { ...this.#livePage(noLie, 3_000) }]
      await Promise.all(pages.map((page) => this.#storeLive(page)))
      this.#tellInAnyOrder(pages)
    } else if (taken.does === 'replay') {
      const page = this.#pages[Math.floor(taken.which * this.#pages.length)]
      if (page === undefined) return
      await this.#storeLive(page)
      this.#tell(page)
    } else if (taken.does === 'history') await this.#walk(taken.lie)
    else await this.#storeCandle(taken.minute, taken.extra)
  }

  #livePage(told: Lie, earlierMs = 0): Page {
    const at = this.#now - earlierMs
    const rows = this.#inOrder(this.#visible(-Infinity, at)).slice(0, this.#drawn.pageRows.live)
    const page: Page = { operation: 'live', from: null, to: null, at, ...this.#lieOf(rows, told) }
    this.#pages.push(page)
    return page
  }

  #visible(from: number, to: number): Fill[] {
    const { hidesEach } = this.#drawn
    return this.#tape.filter(
      ({ id, time }) => time >= from && time < to && (hidesEach === null || Number(id) % hidesEach !== 3),
    )
  }

  /** Newest first, but for rows that leave the order of their times. */
  #inOrder(fills: readonly Fill[]): Fill[] {
    const rank = ({ id, time }: Fill) => time + (Number(id) % 5 === 0 ? this.#drawn.disorderMs : 0)
    return fills.toSorted((a, b) => rank(b) - rank(a) || Number(b.id) - Number(a.id))
  }

  #lieOf(rows: readonly Fill[], { leavesOut, changes, breaks, isOfStored }: Lie): Pick<Page, 'rows' | 'unread'> {
    const at = (told: number | null, among: readonly Fill[]) =>
      told === null ? undefined : among[Math.floor(told * among.length)]
    const changed = at(changes, rows)
    const left = at(leavesOut, isOfStored ? rows.filter(({ id }) => this.#models[0]?.stored.has(id)) : rows)
    const broken = at(breaks, rows)
    const shown = rows.filter((fill) => fill !== left && fill !== broken)
    return {
      rows: shown.map((fill) => (fill === changed ? { ...fill, price: 11 } : fill)),
      unread: broken === undefined || broken === left ? [] : [broken.time],
    }
  }

  async #storeLive(page: Page, db = this.#db): Promise<void> {
    const rows = page.rows.map((fill) => this.#row(fill))
    const batch = batchOf('fills', { category, symbol: this.#symbol }, rows, page.at)
    await storeBatch(db, { ...batch, rejected: rejectedOf(page.unread) })
  }

  /** A process that is killed leaves no part of what it stored. */
  async #storeInVain(page: Page): Promise<void> {
    const killed = new Error('killed')
    const stored = this.#db.transaction().execute(async (trx) => {
      await this.#storeLive(page, trx)
      throw killed
    })
    await stored.catch((error: unknown) => {
      if (error !== killed) throw error
    })
  }

  #row({ id, time, price, size }: Fill): StoredFill {
    return aFill({ symbol: this.#symbol, execId: id, ts: time, price: String(price), size: String(size) })
  }

  #tell(page: Page): void {
    for (const model of this.#models) model.receive(page)
  }

  #tellInAnyOrder(pages: readonly Page[]): void {
    const orders = [pages, pages.toReversed()]
    const models = this.#models.flatMap((model) =>
      orders.map((order) => {
        const copy = model.copy()
        for (const page of order) copy.receive(page)
        return copy
      }),
    )
    // Else their number doubles with each such step.
    this.#models = [...new Map(models.map((model) => [model.knowledge(), model])).values()]
  }

  /** Fetches what no claim holds, as the repair of a gap does. */
  async #walk(told: Lie): Promise<void> {
    this.#pagesOfWalk = 0
    this.#requests = 0
    const wanted = subtract([[start, this.#now - historyLateMs]], await this.#ranges('coverage'))
    const series = { stream: 'fills', category, symbol: this.#symbol, type: '', interval: '' } as const
    const client = {
      pastFills: ({ startTime = 0, endTime = 0 }) => Promise.resolve(this.#pastPage(startTime, endTime, told)),
      fills: () => {
        const rows = this.#inOrder(this.#visible(-Infinity, this.#now)).slice(0, 40)
        // Without a live fill, no page of the history is compared with them.
        this.#isProbe = rows.length > 0
        return Promise.resolve(this.#clientPage({ rows, unread: [] }))
      },
    } as unknown as ExchangeClient
    const context = { client, request: {}, now: () => this.#now, counts: { received: 0, inserted: 0 } }
    await this.#history.fetch(
      series,
      wanted.map(([from, to]) => ({ from, to })),
      {
        ...context,
        ask: (request: () => Promise<unknown>) => request(),
      } as never,
    )
  }

  #pastPage(startTime: number, endTime: number, told: Lie): ClientPage<StoredFill> {
    if (this.#requests++ > maxRequests) throw new Error('the walk through the history does not end')
    const [from, to] = this.#drawn.ignoresBounds ? [-Infinity, this.#now] : [startTime, endTime + 1]
    const inOrder = this.#inOrder(this.#visible(from, to))
    const rows = this.#drawn.isOldestFirst ? inOrder.toReversed() : inOrder
    const page = rows.slice(0, this.#drawn.pageRows.history)
    const isAsItWas = told.ofPage !== null && told.ofPage !== this.#pagesOfWalk++
    const shown = isAsItWas ? { rows: page, unread: [] } : this.#lieOf(page, told)
    // The walk asks for one millisecond more before the window that it judges.
    // A probe only compares ids. Nothing of it is stored.
    if (!this.#isProbe) {
      const isOrderInDoubt = this.#drawn.disorderMs > 0 && shown.rows.length < page.length
      this.#tell({
        operation: 'history',
        from: startTime + 1,
        to: endTime,
        at: this.#now,
        ...shown,
        isOrderInDoubt,
      })
    }
    this.#isProbe = false
    return this.#clientPage(shown)
  }

  #clientPage({ rows: fills, unread }: Pick<Page, 'rows' | 'unread'>): ClientPage<StoredFill> {
    const rows = fills.map((fill) => this.#row(fill))
    return { rows, rejected: rejectedOf(unread), unkept: 0, requestTime: this.#now, receivedAt: this.#now } as never
  }

  async #storeCandle(minute: number, extra: number): Promise<void> {
    const open = start + minute * minuteMs
    if (open + minuteMs + 5_000 > this.#now) return
    const volume = this.#tape.filter(({ time }) => time >= open && time < open + minuteMs).length + extra
    const prices = { open: 10, high: 10, low: 10, close: 10 }
    for (const model of this.#models) model.receiveCandle({ open, at: this.#now, prices, volume })
    const values = { openTime: open, baseVolume: String(volume), open: '10', high: '10', low: '10', close: '10' }
    await storeCandles(this.#db, [aCandle({ symbol: this.#symbol, ...values })])
  }

  #ranges(view: 'coverage' | 'gaps'): Promise<Span[]> {
    return rangesOfSeries(this.#db, view, { stream: 'fills', symbol: this.#symbol, type: '' })
  }

  async #compare(): Promise<string | null> {
    const claims = await this.#ranges('coverage')
    const gaps = await this.#ranges('gaps')
    const both = intersect(claims, gaps)
    if (both.length > 0) return `both claimed and a gap: ${textOf(both)}`
    const judged = this.#models.map((model) => ({ model, wrong: judge(model, claims, gaps) }))
    const agreeing = judged.filter(({ wrong }) => wrong === null)
    if (agreeing.length > 0) this.#models = agreeing.map(({ model }) => model)
    return agreeing.length > 0 ? null : (judged[0]?.wrong ?? null)
  }
}

/** Reads what is claimed of a series, or what is missing. */
export async function rangesOfSeries(
  db: Kysely<Database>,
  view: 'coverage' | 'gaps',
  { stream, symbol, type }: { readonly stream: string; readonly symbol: string; readonly type: string },
): Promise<Span[]> {
  const { rows } = await sql<{ readonly from: number; readonly to: number }>`
    select from_time as "from", to_time as "to" from ${sql.table(`market.${view}`)}
    where stream = ${stream} and category = ${category} and symbol = ${symbol} and coalesce(type::text, '') = ${type}
      ${sql.raw(view === 'gaps' ? `and state <> 'repaired'` : '')} order by 1`.execute(db)
  return rows.map(({ from, to }): Span => [from, to])
}

const noLie: Lie = { leavesOut: null, changes: null, breaks: null, isOfStored: false, ofPage: null }

const rejectedOf = (times: readonly number[]) =>
  times.map((ts) => rejectedRow({ operation: 'fills', parameters: {} }, 'no price', JSON.stringify({ ts: String(ts) })))

function judge(model: FillModel, claims: readonly Span[], gaps: readonly Span[]): string | null {
  const beyond = subtract(claims, model.mayClaim())
  if (beyond.length > 0) return `claimed without proof: ${textOf(beyond)} of ${textOf(claims)}`
  const refuted = model.refuted(claims)
  if (refuted.length > 0) return `claimed against a candle: ${textOf(refuted)}`
  const lacking = subtract(model.mustClaim(), claims)
  if (lacking.length > 0) return `not claimed: ${textOf(lacking)}, only ${textOf(claims)}`
  const silent = subtract(model.mustAccountFor(claims), unite([...claims, ...gaps]))
  if (silent.length > 0)
    return `neither claimed nor in a gap: ${textOf(silent)}, only ${textOf(claims)} and ${textOf(gaps)}`
  return null
}

function textOf(spans: readonly Span[]): string {
  return spans.map(([from, to]) => `[${(from - start) / 1_000}, ${(to - start) / 1_000})`).join(' ')
}
