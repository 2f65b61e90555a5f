import { join } from 'node:path'
import { dayMs } from '../../src/market/values.js'
import { runArchive } from '../../src/files/archive/run.js'
import { folderTarget } from '../../src/files/layout/target.js'
import { atMost, type Check, check, figure, timeOf } from '../tools/checks.js'
import type { BenchDatabase } from '../tools/database.js'
import { instruments } from './data.js'

const begin = Date.UTC(2025, 0, 1)
const year = 365
/** As many as a large market lists, most of which are hardly traded. */
const listed = 2_800

/** Archives one more day when 10, 100 and 365 are there: what it takes must not grow with those. */
export async function benchGrowth({ database, folder }: BenchDatabase): Promise<Check[]> {
  const target = folderTarget(join(folder, 'growth'))
  const figures: { ms: number; bytes: number }[] = []
  let end = 0
  /** Archives up to a day. Resolves to the time that it took, and to the bytes that it wrote. */
  const archiveUntil = async (days: number) => {
    await loadHours(database.pool, end, days)
    end = days
    const now = () => begin + days * dayMs + dayMs / 2
    const before = new Set((await target.list('market/')).map(({ path }) => path))
    const request = { tables: ['candles'], afterHours: 1, snapshotDays: 1 }
    const ms = await timeOf(() => runArchive(database, target, request, { now }))
    const written = (await target.list('market/')).filter(({ path }) => !before.has(path))
    return { ms, bytes: written.reduce((sum, { bytes }) => sum + bytes, 0) }
  }
  for (const days of [10, 100, 365]) {
    await archiveUntil(days)
    const runs = []
    for (let more = 1; more <= 5; more++) runs.push(await archiveUntil(days + more))
    // The bytes of the last one have no snapshots of the days before in them.
    const ms = Math.min(...runs.map((run) => run.ms))
    figures.push({ ms, bytes: runs.at(-1)?.bytes ?? Number.NaN })
  }
  await target.close()
  const [first, , last] = figures
  const growth = (figure: 'ms' | 'bytes') => (last?.[figure] ?? Number.NaN) / (first?.[figure] ?? Number.NaN)
  const list = (figure: 'ms' | 'bytes') => figures.map((one) => Math.round(one[figure])).join(', ')
  const less = (what: string, key: 'ms' | 'bytes') =>
    check(what, list(key), 'at most 1.3 times the first', growth(key) <= 1.3)
  return [
    less('growth: ms to archive a day when 10, 100 and 365 are there', 'ms'),
    less('growth: bytes written for it', 'bytes'),
  ]
}

/** Looks for something to do where a year of many thin instruments is archived, and writes the one day that changed. */
export async function benchIdle({ database, folder }: BenchDatabase): Promise<Check[]> {
  const { pool } = database
  const target = folderTarget(join(folder, 'idle'))
  console.log(`loading and archiving a year of ${listed} instruments`)
  for (const rows of [
    `market.candles (category, symbol, type, interval, open_time, open, high, low, close, base_volume, quote_turnover, is_closed)
     select 'SPOT', 'THIN' || n, 'market', '1Dutc', at, 10, 12, 9, 11, 5, 55, true`,
    `market.fills (category, symbol, ts, exec_id, side, price, size, received_at)
     select 'SPOT', 'THIN' || n, at, n || '-' || extract(epoch from at), 'buy', 10, 1, at`,
  ])
    await pool.query(
      `insert into ${rows} from generate_series(1, ${listed}) n,
         generate_series($1::timestamptz, $2::timestamptz - interval '1 day', interval '1 day') at`,
      [new Date(begin), new Date(begin + year * dayMs)],
    )
  await pool.query('vacuum analyze')
  const now = () => begin + year * dayMs + dayMs / 2
  const run = async () => {
    const startedAt = performance.now()
    const request = { tables: ['candles', 'fills'], afterHours: 1, snapshotDays: 1 }
    const { due } = await runArchive(database, target, request, { now })
    return { due: due.length, ms: performance.now() - startedAt }
  }
  const first = await run()
  const idle = await run()
  await pool.query(`update recorder.archived_day set archived_at = archived_at - interval '6 hours'`)
  await pool.query(`update market.fills set price = 11 where symbol = 'THIN7' and ts = $1`, [new Date(begin)])
  const changed = await run()
  await target.close()
  return [
    check('idle: days written at first', String(first.due), String(2 * year), first.due === 2 * year),
    atMost(`idle: ms to find that nothing is due on ${year} days of ${listed} instruments`, idle.ms, 2_000),
    check(
      'idle: days found then, and after one row changed',
      `${idle.due}, ${changed.due}`,
      '0, 1',
      idle.due === 0 && changed.due === 1,
    ),
    figure('idle: ms to write the day of that row', Math.round(changed.ms).toString()),
  ]
}

/** An hourly candle of each instrument, half-open by day. */
async function loadHours(pool: BenchDatabase['database']['pool'], fromDay: number, toDay: number): Promise<void> {
  await pool.query(
    `insert into market.candles (category, symbol, type, interval, open_time, open, high, low, close, base_volume,
       quote_turnover, is_closed)
     select 'SPOT', 'BENCH' || n || 'USDT', 'market', '1H', at, 10, 12, 9, 11, 5, 55, true
     from generate_series(1, ${instruments}) n,
       generate_series($1::timestamptz, $2::timestamptz - interval '1 hour', interval '1 hour') at`,
    [new Date(begin + fromDay * dayMs), new Date(begin + toDay * dayMs)],
  )
}
