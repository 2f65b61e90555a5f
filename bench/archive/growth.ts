import { join } from 'node:path'
import { dayMs } from '../../src/market/values.js'
import { runArchive } from '../../src/files/archive/run.js'
import { folderTarget } from '../../src/files/layout/target.js'
import { type Check, check } from '../tools/checks.js'
import type { BenchDatabase } from '../tools/database.js'
import { instruments } from './data.js'

const begin = Date.UTC(2025, 0, 1)

/** Archives one more day when 10, 100 and 365 are there: what it takes must not grow with those. */
export async function benchGrowth({ database, folder }: BenchDatabase): Promise<Check[]> {
  const target = folderTarget(join(folder, 'growth'))
  const figures: { days: number; ms: number; idleMs: number; bytes: number }[] = []
  let end = 0
  /** Archives up to a day. Resolves to the time that it took, and to the bytes that it wrote. */
  const archiveUntil = async (days: number) => {
    await loadHours(database.pool, end, days)
    end = days
    const now = () => begin + days * dayMs + dayMs / 2
    const before = new Set((await target.list('market/')).map(({ path }) => path))
    const request = { tables: ['candles'], afterHours: 1, snapshotDays: 1 }
    const startedAt = performance.now()
    await runArchive(database, target, request, { now })
    const ms = performance.now() - startedAt
    const again = performance.now()
    const { due } = await runArchive(database, target, request, { now })
    if (due.length > 0) throw new Error('a day was due twice')
    const idleMs = performance.now() - again
    const written = (await target.list('market/')).filter(({ path }) => !before.has(path))
    return { ms, idleMs, bytes: written.reduce((sum, { bytes }) => sum + bytes, 0) }
  }
  for (const days of [10, 100, 365]) {
    await archiveUntil(days)
    const runs = []
    for (let more = 1; more <= 3; more++) runs.push(await archiveUntil(days + more))
    // The bytes of the last one have no snapshots of the days before in them.
    const ms = Math.min(...runs.map((run) => run.ms))
    const idleMs = Math.min(...runs.map((run) => run.idleMs))
    figures.push({ days, ms, idleMs, bytes: runs.at(-1)?.bytes ?? Number.NaN })
  }
  await target.close()
  const [first, , last] = figures
  const growth = (figure: 'ms' | 'idleMs' | 'bytes') => (last?.[figure] ?? Number.NaN) / (first?.[figure] ?? Number.NaN)
  const list = (figure: 'ms' | 'idleMs' | 'bytes') => figures.map((one) => Math.round(one[figure])).join(', ')
  const less = (what: string, key: 'ms' | 'idleMs' | 'bytes') =>
    check(what, list(key), 'less than twice the first', growth(key) < 2)
  return [
    less('growth: ms to archive a day when 10, 100 and 365 are there', 'ms'),
    less('growth: ms to find that nothing is due', 'idleMs'),
    less('growth: bytes written for it', 'bytes'),
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
