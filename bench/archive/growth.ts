import { join } from 'node:path'
import { dayMs } from '../../src/market/values.js'
import { runArchive } from '../../src/files/archive/run.js'
import { folderTarget } from '../../src/files/archive/target.js'
import { publishTables } from '../../src/files/iceberg/publish.js'
import { type Check, check } from '../tools/checks.js'
import type { BenchDatabase } from '../tools/database.js'
import { instruments } from './data.js'

const begin = Date.UTC(2025, 0, 1)

/** Publishes one more day when 10, 100 and 365 are there: what it takes must not grow with those. */
export async function benchGrowth({ database, folder }: BenchDatabase): Promise<Check[]> {
  const target = folderTarget(join(folder, 'growth'))
  const figures: { days: number; ms: number; bytes: number }[] = []
  let end = 0
  /** Archives up to a day. Resolves to the time of its last publication, and to the bytes that it wrote for tables. */
  const archiveUntil = async (days: number) => {
    await loadHours(database.pool, end, days)
    end = days
    const now = () => begin + days * dayMs + dayMs / 2
    const before = new Set((await target.list('iceberg/')).map(({ path }) => path))
    let ms = 0
    await runArchive(
      database,
      target,
      { tables: ['candles'], afterHours: 1 },
      {
        now,
        recorder: 'bench',
        async publish(folder) {
          const startedAt = performance.now()
          const done = await publishTables({ folder, db: database.db, target, now, snapshotDays: 1 })
          ms = performance.now() - startedAt
          return done
        },
      },
    )
    const written = (await target.list('iceberg/')).filter(({ path }) => !before.has(path))
    return { ms, bytes: written.reduce((sum, { bytes }) => sum + bytes, 0) }
  }
  for (const days of [10, 100, 365]) {
    await archiveUntil(days)
    const runs = []
    for (let more = 1; more <= 3; more++) runs.push(await archiveUntil(days + more))
    // The bytes of the last one have no snapshots of the days before in them.
    const ms = Math.min(...runs.map((run) => run.ms))
    figures.push({ days, ms, bytes: runs.at(-1)?.bytes ?? Number.NaN })
  }
  await target.close()
  const [first, , last] = figures
  const growth = (figure: 'ms' | 'bytes') => (last?.[figure] ?? Number.NaN) / (first?.[figure] ?? Number.NaN)
  const list = (figure: 'ms' | 'bytes') => figures.map((one) => Math.round(one[figure])).join(', ')
  const less = (what: string, key: 'ms' | 'bytes') =>
    check(what, list(key), 'less than twice the first', growth(key) < 2)
  return [
    less('growth: ms to publish a day when 10, 100 and 365 are there', 'ms'),
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
