import { type Expression, expressionBuilder, type Kysely, type RawBuilder, sql, type SqlBool } from 'kysely'
import type { CandleSeries } from '../market/candle.js'
import type { Category, InstrumentKey } from '../market/category.js'
import type { TimeRange } from '../market/timeRange.js'
import { dayMs, minuteMs, type ServiceMs } from '../market/values.js'
import { instant } from '../db/columns.js'
import { callFunction } from '../db/database.js'
import type { Database } from '../db/schema.js'
import { addingRanges, ofSeries, type Series, seriesValues } from '../db/series.js'

/**
 * Knowledge about a range of time of a series in `recorder.ledger`. Nothing is known of a range without a verdict.
 * docs/internals/rule.md has the rule by which time is claimed, and the table's comments say what each verdict means.
 * Functions of this folder write verdicts, or call functions of the database that do (`migrations/functions`):
 *
 * | from                 | to                   | by                                              | when                                          |
 * | -------------------- | -------------------- | ----------------------------------------------- | --------------------------------------------- |
 * | any                  | recorded             | `storeCandles`, `storeFills`, `storePastFills`, | rows are stored that prove it                 |
 * |                      |                      | `claimEvents`                                   |                                               |
 * | nothing              | silent, and recorded | `storeCandles`                                  | a response leaves candles out between two     |
 * | silent               | no trade             | `confirmNoTrade`                                | a response a day later leaves them out, too   |
 * | silent, no trade     | repaired             | `storeCandles`                                  | candles come after all                        |
 * | silent, no trade     | missing              | `storeFills`, `storePastFills`, `storeCandles`  | fills or forming candles of their time come   |
 * | unanswered           | before the beginning | `addEmptyRanges`                                | a response an hour later shows nothing either |
 * | nothing              | unanswered           | `replaceUnanswered`                             | no response shows anything                    |
 * | nothing              | missing              | `storeFills`, `claimEvents`, `recordGap`,       | rows did not come, and may come later         |
 * |                      |                      | `replaceGaps`, `explainFills`, `missEvents`     |                                               |
 * | nothing              | lost                 | `recordGap`                                     | a snapshot was lost, which no history has     |
 * | recorded             | missing              | `note_evidence`                                 | a candle, a response or a schedule contradicts |
 * | missing              | lost                 | `loseGaps`                                      | no history of the service reaches it          |
 * | lost                 | missing              | `reopenGaps`                                    | the service has a history after all           |
 * | missing, lost        | repaired             | `storeFills`, `storePastFills`, `claimEvents`,  | rows came, and the range is recorded          |
 * |                      |                      | `settleGaps`, `replaceGaps`                     |                                               |
 * | missing              | nothing              | `settleGaps`                                    | it is before the beginning                    |
 * | missing, lost        | recorded             | `weigh_minutes`                                 | candles show that no fill was lost            |
 * | before the beginning | nothing              | `recordInstruments`                             | the instrument is listed again                |
 * | before the beginning | missing              | `storeCandles`                                  | older candles come: what follows them lacks   |
 * | recorded             | final                | `removeArchived`                                | rows leave for the archive                    |
 * | recorded, silent,    | nothing              | `forget`                                        | rows are older than the configuration keeps   |
 * | no trade, missing,   |                      |                                                 |                                               |
 * | lost, repaired       |                      |                                                 |                                               |
 */
type Verdict = Database['recorder.ledger']['verdict']

const eb = expressionBuilder<Database>()

/** Returns a condition for a series' rows of `recorder.ledger` with this verdict. `alias` names the table. */
export function knownOf(series: Series, verdict: Verdict, alias?: string): Expression<SqlBool> {
  return eb.and([ofSeries(series, alias), hasVerdict(verdict, alias)])
}

export function hasVerdict(verdict: Verdict, alias?: string): Expression<SqlBool> {
  return eb(sql.ref<string>(alias === undefined ? 'verdict' : `${alias}.verdict`), '=', sql.lit(verdict))
}

/** SQL for the range of a gap. The column `part` holds its beginning. */
export const gapRange = sql.raw('tstzrange(part, upper(ranges))')

/** Calls a function of schema recorder that moves ranges of candles from one verdict to another. */
export async function callOfCandles<Result = void>(
  db: Kysely<Database>,
  name: string,
  { category, symbol, type, interval }: CandleSeries,
  ...values: readonly (readonly TimeRange[] | string | ServiceMs | null)[]
): Promise<Result> {
  const texts = values.map((value) => {
    if (typeof value === 'number') return new Date(value)
    return typeof value === 'string' || value === null ? value : multirangeText(value)
  })
  return callFunction(db, `recorder.${name}`, category, symbol, type, interval, ...texts)
}

/** Adds ranges, as the text of a multirange, to the ranges with a verdict. All are kept in one row, not in parts. */
export async function addKnown(db: Kysely<Database>, series: Series, verdict: Verdict, ranges: string): Promise<void> {
  await sql`
    insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, ranges)
    values (${sql.join(seriesValues(series))}, ${verdict}, ${ranges}) ${addingRanges}`.execute(db)
}

export function timeRange({ from, to }: TimeRange): RawBuilder<string> {
  return sql`tstzrange(${instant(from)}, ${instant(to)})`
}

export function multirange(ranges: readonly TimeRange[]): RawBuilder<string> {
  return sql`${multirangeText(ranges)}::tstzmultirange`
}

/** Returns a multirange as text that the server reads. */
export function multirangeText(ranges: readonly TimeRange[]): string {
  return `{${rangeTexts(ranges).join(',')}}`
}

/** Returns ranges as texts that the server reads. */
export function rangeTexts(ranges: readonly TimeRange[]): string[] {
  return ranges.map(({ from, to }) => `[${new Date(from).toISOString()},${new Date(to).toISOString()})`)
}

/** Returns SQL for the ranges of a multirange, ascending, in the form that `toRanges` takes. */
export function rangesAsJson(column: string): RawBuilder<[ServiceMs, ServiceMs][]> {
  return sql`(select coalesce(json_agg(json_build_array(
      (extract(epoch from lower(r)) * 1000)::bigint, (extract(epoch from upper(r)) * 1000)::bigint) order by r), '[]')
    from unnest(${sql.ref(column)}) as r)`
}

export function toRanges(pairs: readonly (readonly [ServiceMs, ServiceMs])[]): TimeRange[] {
  return pairs.map(([from, to]) => ({ from, to }))
}

/** Evidence against the claim of a range that begins at `from`. */
interface Evidence extends InstrumentKey {
  readonly id: number
  readonly stream: string
  readonly from: ServiceMs
  readonly reason: string
}

/** The most evidence that one look reads. */
export const maxEvidence = 1000

/** Reads the newest evidence that stands. */
export async function standingEvidence(db: Kysely<Database>): Promise<Evidence[]> {
  const { rows } = await sql<Evidence>`
    select id, stream, category, symbol, part as "from", reason from recorder.ledger
    where verdict in ('contradicted', 'disputed') order by noted_at desc, id desc limit ${maxEvidence}`.execute(db)
  return rows
}

interface ContradictedShare {
  readonly category: Category
  /** Share of the minutes of the last day, of all instruments whose fills are requested. */
  readonly share: number
}

/** Computes for each category the share of minutes that candles contradict. */
export async function contradictedShares(db: Kysely<Database>): Promise<ContradictedShare[]> {
  const { rows } = await sql<ContradictedShare>`
    select category, (
        select count(*) from recorder.ledger k
        where k.stream = 'fills' and k.category = asked.category and k.verdict = 'contradicted'
          and k.part > asked.newest - interval '1 day'
      ) / (instruments * ${dayMs / minuteMs}::float8) as share
    from (
      select category, count(*) as instruments, max(noted_at) as newest
      from recorder.ledger where stream = 'fills' and verdict = 'unsettled' group by category
    ) as asked order by category`.execute(db)
  return rows
}

/** Gives up evidence that rows have not answered for 90 days: its gaps are lost. */
export async function giveUpOldEvidence(db: Kysely<Database>): Promise<void> {
  await callFunction(db, 'recorder.give_up_evidence', '90 days')
}
