import { minuteMs } from '../src/market/values.js'
import { storeBatch } from '../src/ledger/storeBatches.js'
import type { RecorderDatabase } from '../src/db/database.js'
import { addCoverage } from '../src/ledger/verdicts.js'
import { fillPage } from './costRows.js'
import { type Check, median } from './figures.js'
import { withQuietDatabase } from './quietDatabase.js'

/** A gap each minute for four weeks. */
const gapCount = 40_000
/** So many ranges are claimed together while the gaps are made up. */
const rangesPerClaim = 128
const pages = 60
const someTime = Date.UTC(2026, 0, 15, 12)

/** What storing a page of fills costs behind tens of thousands of gaps, in times of what it costs without any. */
export async function measureGaps(): Promise<Check[]> {
  return withQuietDatabase(async (database) => {
    for (let gap = 0; gap < gapCount; gap += rangesPerClaim) await claim(database, 'GAPSUSDT', gap)
    const without = await costOfPages(database, 'WHOLEUSDT')
    const withGaps = await costOfPages(database, 'GAPSUSDT')
    const times = withGaps.ms / without.ms
    const text = ({ ms, walBytes }: Cost) => `${ms.toFixed(1)} ms and ${(walBytes / 1024).toFixed(1)} KiB of WAL`
    return [
      {
        what: `a page of 100 fills of an instrument with ${gapCount} gaps, beside one without`,
        measured: `${text(withGaps)}, beside ${text(without)}: ${times.toFixed(2)} times`,
        target: '<= 2 times',
        isMet: times <= 2,
      },
    ]
  })
}

async function claim({ db }: RecorderDatabase, symbol: string, first: number): Promise<void> {
  const ranges = Array.from({ length: rangesPerClaim }, (_, index) => {
    const from = someTime - (gapCount + rangesPerClaim - first - index) * minuteMs
    return { from, to: from + minuteMs - 1_000 }
  })
  await addCoverage(db, { stream: 'fills', category: 'SPOT', symbol, type: null, interval: null }, ranges)
}

interface Cost {
  /** Of a page, the median. */
  readonly ms: number
  /** Of a page, the mean. */
  readonly walBytes: number
}

/** Every second page follows on, every other one leaves a gap before it. */
async function costOfPages({ db, pool }: RecorderDatabase, symbol: string): Promise<Cost> {
  const times: number[] = []
  const wal = async () =>
    (await pool.query<{ at: number }>(`select (pg_current_wal_insert_lsn() - '0/0')::float8 as at`)).rows[0]?.at ?? 0
  await storeBatch(db, fillPage(symbol, 0, someTime))
  const before = await wal()
  for (let page = 1, number = 1; page <= pages; page++, number += page % 2 === 0 ? 1 : 3) {
    const startedMs = performance.now()
    await storeBatch(db, fillPage(symbol, number, someTime))
    times.push(performance.now() - startedMs)
  }
  return { ms: median(times), walBytes: ((await wal()) - before) / pages }
}
