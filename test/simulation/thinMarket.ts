import type pg from 'pg'
import { fillRefusals } from '../../src/history/fillsWalk.js'
import { nothingOlder } from '../../src/history/sliceWork.js'
import { minuteMs } from '../../src/market/values.js'
import { groupBy } from '../../src/runtime/groupBy.js'
import { countRequests, type RequestReasons } from './requestReasons.js'
import type { VirtualTime } from './virtualTime.js'
import type { WorldPlan } from './worldPlan.js'

/** What is younger than this in the end need not have closed. */
const newestMs = 15 * minuteMs

/** Wants the past of everything, as `backfill` does. Busy instruments have too many fills for more than a day of them. */
const insertPast = `
  insert into recorder.want (kind, stream, category, symbol, type, interval, ranges, floor, requested_at)
  select 'backfill', past.stream, category, symbol, past.type, past.interval, tstzmultirange(tstzrange($1::timestamptz - reach, $1)), $1::timestamptz - reach, $1
  from market.instruments cross join (values
    ('candles', 'market', '1m', interval '30 days'), ('fills', '', '', interval '1 day')
  ) as past (stream, type, interval, reach)`

/** Of each stream: how many series it has, and the time that is not proven, with the first series that has some. */
const selectUnproven = `
  with series as (
    select stream, category || ' ' || symbol as name,
      coalesce(range_agg(r) filter (where verdict = 'recorded'), '{}') as recorded,
      coalesce(range_agg(r) filter (where verdict in ('missing', 'lost')), '{}') as gaps
    from recorder.ledger cross join lateral unnest(ranges) as r
    where stream in ('fills', 'candles', 'funding_rates', 'liquidations') group by 1, 2
  ), parts as (
    select *, case when isempty(recorded) then '{}' else tstzmultirange(range_merge(recorded)) end - recorded - gaps
        - tstzmultirange(tstzrange(null, $2)) as holes,
      extract(epoch from $1::timestamptz - upper(recorded)) / 3600 as edge
    from series
  )
  select stream, count(*)::int as series, count(*) filter (where isempty(recorded))::int as unclaimed,
    count(*) filter (where edge > 1)::int as edges, coalesce(max(edge), 0)::float8 as "edgeHours",
    count(*) filter (where not isempty(holes))::int as holed, min(name || ' ' || holes::text) filter (where not isempty(holes)) as hole
  from parts group by 1 order by 1`

/** What is still open: gaps, lost ones too, evidence, silence that no review has confirmed, wants, and what is unanswered. */
const selectOpen = `
  select case when verdict = 'silent' then 'unconfirmed silence' when verdict in ('missing', 'lost') then verdict || ' gap'
      else verdict end || ' of ' || stream as what, verdict = 'unanswered' or reason in ('${fillRefusals.unproven}', '${nothingOlder}') as "isUnknown",
    concat_ws(' ', category, symbol, ranges::text, reason) as which
  from recorder.ledger k
  where verdict in ('missing', 'lost', 'contradicted', 'disputed', 'unanswered') and upper(ranges) < $1
    or verdict = 'silent' and noted_at < $1::timestamptz - interval '25 hours'
  union all
  select 'open want (' || kind || ') of ' || stream, false, concat_ws(' ', category, symbol, (ranges - done)::text, problem)
  from recorder.want where ended_at is null and requested_at < $1`

interface Unproven {
  readonly stream: string
  readonly series: number
  readonly unclaimed: number
  readonly edges: number
  readonly edgeHours: number
  readonly holed: number
  readonly hole: string | null
}

interface OpenThing {
  readonly what: string
  /** The service shows no row, so that nobody can know more. */
  readonly isUnknown: boolean
  readonly which: string
}

/** Judges a market of thin tokens: why requests are made, and whether each series closes. */
export class ThinMarket {
  readonly #plan: WorldPlan
  readonly #pool: pg.Pool
  readonly #requests: RequestReasons

  constructor(plan: WorldPlan, time: VirtualTime, pool: pg.Pool) {
    this.#plan = plan
    this.#pool = pool
    this.#requests = countRequests(plan, () => time.nowMs)
  }

  async wantPast(now: number): Promise<void> {
    await this.#pool.query(insertPast, [new Date(now)])
  }

  /** Returns a table of the requests of a day, from 0. */
  table(day: number): string[] {
    return this.#requests.table(day)
  }

  /** Violates where upkeep takes too much of a budget, or a series has not closed. What is not proven is told. */
  async judge(now: number, violate: (line: string) => void, tell: (line: string) => void): Promise<void> {
    for (const line of this.#requests.tooMuch()) violate(line)
    const { rows: streams } = await this.#pool.query<Unproven>(
      selectUnproven,
      [now, this.#plan.epochMs].map((at) => new Date(at)),
    )
    for (const { stream, series, unclaimed, edges, edgeHours, holed, hole } of streams) {
      const edge = `${edges} not proven for the last hour or longer, ${edgeHours.toFixed(1)} h at most`
      tell(
        `${stream}: ${series} series of ${this.#plan.instruments.length} instruments, ${unclaimed} without a claim, ${edge}`,
      )
      if (hole !== null) violate(`${stream}: ${holed} series with time that is neither proven nor in a gap, as ${hole}`)
    }
    const { rows: open } = await this.#pool.query<OpenThing>(selectOpen, [new Date(now - newestMs)])
    for (const [text, things] of groupBy(open, ({ what, isUnknown }) =>
      isUnknown ? `${what}, without a row` : what,
    )) {
      const [first] = things
      const line = `${things.length} × ${text}, as ${first?.which}`
      if (first?.isUnknown === true) tell(line)
      else violate(line)
    }
  }
}
