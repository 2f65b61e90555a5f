import { type Kysely, type RawBuilder, sql, type Transaction } from 'kysely'
import { intervalMs } from '../../market/candle.js'
import { operationOf } from '../../market/stream.js'
import type { TimeMs } from '../../market/values.js'
import { candleLengths } from '../../db/candleLengths.js'
import { toDate } from '../../db/columns.js'
import { instrumentColumns } from '../../db/instrumentColumns.js'
import type { Database } from '../../db/schema.js'
import { timeTables } from '../../db/timeTables.js'

/** What was found, or done, in one table. */
export interface Mended {
  readonly table: string
  readonly rows: number
  /** What is done with them, for a reader. */
  readonly what: string
}

/** Times outside of it cannot be. */
export interface Possible {
  readonly earliest: TimeMs
  readonly latest: TimeMs
}

/**
 * Takes out of the database what a response with a wrong clock has left there: rows from a time that cannot be go to
 * `recorder.rejected_row`, and what was concluded from them is taken back. All of it or nothing; without `apply` everything
 * is done and undone again, so that what is told is what would happen. Returns what was found, empty when nothing was.
 */
export async function mendClock(db: Kysely<Database>, possible: Possible, apply: boolean): Promise<Mended[]> {
  const found: Mended[] = []
  try {
    await db.transaction().execute(async (trx) => {
      const steps = [mendFillCoverage, mendRows, mendRanges, mendInstruments, mendRpiSymbols]
      for (const step of steps) found.push(...(await step(trx, possible)))
      if (!apply) throw new Undone()
    })
  } catch (error) {
    if (!(error instanceof Undone)) throw error
  }
  return found.filter(({ rows }) => rows > 0)
}

/** Ends a transaction that was only to show what it would do. */
class Undone extends Error {}

type Step = (trx: Transaction<Database>, possible: Possible) => Promise<Mended[]>

function impossible(column: RawBuilder<unknown>, { earliest, latest }: Possible): RawBuilder<unknown> {
  return sql`(${column} > ${toDate(latest)}::timestamptz or ${column} < ${toDate(earliest)}::timestamptz)`
}

async function affected(trx: Transaction<Database>, statement: RawBuilder<unknown>): Promise<number> {
  const { numAffectedRows, rows } = await statement.execute(trx)
  return Number(numAffectedRows ?? rows.length)
}

/**
 * A response with a fill from the future claims everything up to it, so that no later gap was seen. What is proven ends with
 * the newest fill that had been received until then; the next response finds that it does not follow on, and notes a gap.
 */
const mendFillCoverage: Step = async (trx, possible) => {
  const rows = await affected(
    trx,
    sql`
    with poisoned as (
      select category, symbol, min(received_at) as since from market.fills
      where ${impossible(sql.ref('ts'), possible)} group by category, symbol
    ), sound as (
      select p.category, p.symbol, coalesce((
        select max(f.ts) from market.fills f
        where f.category = p.category and f.symbol = p.symbol and f.received_at <= p.since
          and not ${impossible(sql.ref('f.ts'), possible)}), '-infinity') as until
      from poisoned p
    )
    update recorder.coverage c set ranges = c.ranges - tstzmultirange(tstzrange(s.until, null)), updated_at = now()
    from sound s where c.stream = 'fills' and c.category = s.category and c.symbol = s.symbol
      and c.ranges && tstzmultirange(tstzrange(s.until, null))`,
  )
  return [
    { table: 'recorder.coverage', rows, what: 'cut back to the newest fill before the first one with a wrong time' },
  ]
}

/** No candle that began earlier can still be forming: so only the newest parts of the table are read. */
const longestMs = Math.max(...Object.values(intervalMs))

const mendRows: Step = async (trx, possible) => {
  const found: Mended[] = []
  for (const { name, timeColumn } of timeTables) {
    const received = name === 'candles' ? sql`now()` : sql`doomed.received_at`
    const rows = await affected(
      trx,
      sql`
      with doomed as (
        delete from ${sql.table(`market.${name}`)} where ${impossible(sql.ref(timeColumn), possible)} returning *
      ), told as (
        select doomed.category, doomed.symbol, to_jsonb(doomed)::text as raw, ${received} as seen from doomed
      ), whole as (
        select *, encode(sha256(convert_to(raw, 'UTF8')), 'hex') as raw_sha256 from told
      )
      insert into recorder.rejected_row (
        digest, operation, parameters, reason, raw, raw_sha256, raw_bytes, first_seen_at, last_seen_at)
      select encode(sha256(convert_to(${`mended ${name} `} || raw_sha256, 'UTF8')), 'hex'), ${operationOf[name]},
        jsonb_build_object('category', category, 'symbol', symbol), ${reason}, left(raw, 1024), raw_sha256,
        octet_length(raw), least(seen, now()), now()
      from whole
      on conflict (digest) do update set last_seen_at = excluded.last_seen_at, times_seen = rejected_row.times_seen + 1`,
    )
    found.push({ table: `market.${name}`, rows, what: 'moved to recorder.rejected_row' })
  }
  // Closed by a response whose clock was ahead: it goes on forming.
  const opened = await affected(
    trx,
    sql`
    update market.candles c set is_closed = false from ${candleLengths}
    where c.is_closed and lengths.interval = c.interval::text
      and c.open_time > ${toDate(possible.latest)}::timestamptz - lengths.length
      and c.open_time > ${toDate(possible.latest - longestMs)}::timestamptz`,
  )
  return [...found, { table: 'market.candles', rows: opened, what: 'closed before their time: open again' }]
}

const reason = 'its time cannot be: taken out by mend'

/** Claims and gaps that reach into the future, or begin before there was a market. */
const mendRanges: Step = async (trx, { earliest, latest }) => {
  const possible = sql`tstzrange(${toDate(earliest)}::timestamptz, ${toDate(latest)}::timestamptz)`
  const found: Mended[] = []
  for (const table of ['recorder.coverage', 'recorder.empty_range']) {
    const rows = await affected(
      trx,
      sql`
      update ${sql.table(table)} set ranges = ranges * tstzmultirange(${possible}), updated_at = now()
      where not ranges <@ ${possible}`,
    )
    found.push({ table, rows, what: 'cut to what is possible' })
  }
  await sql`delete from recorder.empty_range where isempty(ranges)`.execute(trx)
  await sql`delete from recorder.coverage where isempty(ranges) and part > '-infinity'`.execute(trx)
  // The first part of a series stays as long as it has others.
  await sql`
    delete from recorder.coverage c where isempty(ranges) and not exists (
      select from recorder.coverage o where o.part > '-infinity'
        and (o.stream, o.category, o.symbol, o.type, o.interval) = (c.stream, c.category, c.symbol, c.type, c.interval))`.execute(
    trx,
  )
  const silent = await affected(
    trx,
    sql`
    update recorder.no_trade set ranges = ranges * tstzmultirange(${possible}), confirmed = confirmed * tstzmultirange(${possible})
    where not ranges <@ ${possible}`,
  )
  await sql`delete from recorder.no_trade where isempty(ranges)`.execute(trx)
  found.push({ table: 'recorder.no_trade', rows: silent, what: 'cut to what is possible' })
  // A gap that was found by a response from the future is known to have begun, and to have lasted until it was found.
  const kept = sql`g.range * tstzrange(${toDate(earliest)}::timestamptz, least(g.detected_at, ${toDate(latest)}::timestamptz))`
  const removed = await affected(
    trx,
    sql`
    delete from recorder.gap g where not g.range <@ ${possible}
      and (isempty(${kept}) or exists (select from recorder.gap o
        where (o.stream, o.category, o.symbol, o.type, o.interval, o.range) = (g.stream, g.category, g.symbol, g.type, g.interval, ${kept})))`,
  )
  const cut = await affected(trx, sql`update recorder.gap g set range = ${kept} where not g.range <@ ${possible}`)
  return [
    ...found,
    { table: 'recorder.gap', rows: removed, what: 'removed: of an impossible time' },
    { table: 'recorder.gap', rows: cut, what: 'cut to when they were found' },
  ]
}

/** Versions from the future go, and the ones that they ended hold again. */
const mendInstruments: Step = async (trx, possible) => {
  const history = sql.table('market.instrument_history')
  const removed = await affected(trx, sql`delete from ${history} where ${impossible(sql.ref('valid_from'), possible)}`)
  const reopened = await affected(
    trx,
    sql`update ${history} set valid_to = null where ${impossible(sql.ref('valid_to'), possible)}`,
  )
  const gone = await affected(
    trx,
    sql`
    delete from market.instruments i where not exists (
      select from ${history} h where h.category = i.category and h.symbol = i.symbol)`,
  )
  const names = [...instrumentColumns.map(({ name }) => name), 'extra']
  const assignments = sql.join(names.map((name) => sql`${sql.ref(name)} = ${sql.ref(`h.${name}`)}`))
  const restored = await affected(
    trx,
    sql`
    update market.instruments i set ${assignments}, updated_at = h.valid_from,
      first_seen_at = least(i.first_seen_at, h.valid_from), disappeared_at = h.valid_to
    from (select distinct on (category, symbol) * from ${history} order by category, symbol, valid_from desc) h
    where h.category = i.category and h.symbol = i.symbol
      and (${impossible(sql.ref('i.updated_at'), possible)} or ${impossible(sql.ref('i.first_seen_at'), possible)}
        or ${impossible(sql.ref('i.disappeared_at'), possible)})`,
  )
  return [
    { table: 'market.instrument_history', rows: removed, what: 'removed: versions of an impossible time' },
    { table: 'market.instrument_history', rows: reopened, what: 'valid again: ended by a response with a wrong time' },
    { table: 'market.instruments', rows: gone, what: 'removed: known only from responses with a wrong time' },
    { table: 'market.instruments', rows: restored, what: 'as they were before' },
  ]
}

const mendRpiSymbols: Step = async (trx, possible) => {
  const table = sql.table('market.rpi_symbols')
  const removed = await affected(trx, sql`delete from ${table} where ${impossible(sql.ref('valid_from'), possible)}`)
  const reopened = await affected(
    trx,
    sql`update ${table} set valid_to = null where ${impossible(sql.ref('valid_to'), possible)}`,
  )
  return [
    { table: 'market.rpi_symbols', rows: removed, what: 'removed: memberships of an impossible time' },
    { table: 'market.rpi_symbols', rows: reopened, what: 'valid again: ended by a response with a wrong time' },
  ]
}
