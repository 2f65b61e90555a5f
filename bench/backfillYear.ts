import type { RecorderDatabase } from '../src/db/database.js'
import { benchSymbols } from './backfillMarket.js'
import { candleRequests, openBench, sleep, startProgram, stopProgram } from './backfillSetup.js'
import { backfillArgs, type Check, compare, configOf, minRequests, rangeOf, reachDays } from './backfillWork.js'

/** A year of three instruments with ten times the limits, killed five times. */
export async function benchYear(days: number): Promise<Check[]> {
  const bench = await openBench({ limitFactor: 10, jitterMs: 0 })
  try {
    const { url, database } = await bench.createDatabase('year')
    const config = await bench.configure('year', configOf(bench, 10))
    const { from, to } = rangeOf(days)
    const args = backfillArgs(config, from, to)
    const least = minRequests(from, to, benchSymbols.length)
    const startedMs = performance.now()
    const repeated: number[] = []
    for (let kill = 0; kill < 5; kill++) {
      const program = startProgram(args, url)
      // At any moment of what a fifth of the work takes.
      await sleep(4_000 + Math.random() * (least / 190 / 6) * 1_000)
      await stopProgram(program, 'SIGKILL')
      await sleep(500)
      const stored = await countCandles(database)
      const { requests } = candleRequests(await bench.report())
      // What was asked for and is not stored will be asked for again.
      repeated.push(requests - minFor(stored))
    }
    const last = await startProgram(args, url).ended
    console.log(last.stderr.trim(), last.stdout)
    const seconds = (performance.now() - startedMs) / 1000
    const report = candleRequests(await bench.report())
    const wrong = await compare(database, from, to)
    const kills = repeated.map((total, i) => total - (repeated[i - 1] ?? 0))
    const secondMs = performance.now()
    const second = await startProgram(args, url).ended
    const secondTook = (performance.now() - secondMs) / 1000
    const after = candleRequests(await bench.report())
    const rows = benchSymbols.length * days * 1440
    return [
      [`${rows.toLocaleString('en')} candles against the simulator's`, `${wrong} differ`, '0', wrong === 0],
      [
        'requests, the least possible',
        `${report.requests}, ${least} (${(report.requests / least).toFixed(4)})`,
        '',
        true,
      ],
      [
        'requests repeated per kill',
        kills.map((n) => Math.round(n)).join(', '),
        '<= 200 each',
        kills.every((n) => n <= 200),
      ],
      ['rejections', String(report.rejected), '0', report.rejected === 0],
      ['exit code', String(last.exitCode), '0', last.exitCode === 0],
      ['seconds, five restarts included', seconds.toFixed(0), '', true],
      [
        'second run: candle requests',
        String(after.requests - report.requests),
        '0',
        after.requests === report.requests,
      ],
      [
        'second run: seconds from start to end',
        secondTook.toFixed(1),
        '<= 2',
        second.exitCode === 0 && secondTook <= 2,
      ],
    ]
  } finally {
    await bench.close()
  }
}

/** How many requests the stored candles took at least, by the operation that has them. */
function minFor(stored: { recent: number; old: number }): number {
  return stored.recent / 1000 + stored.old / 100
}

async function countCandles(database: RecorderDatabase): Promise<{ recent: number; old: number }> {
  const { rows } = await database.pool.query<{ recent: number; old: number }>(
    `select count(*) filter (where open_time >= now() - interval '${reachDays} days') as recent,
       count(*) filter (where open_time < now() - interval '${reachDays} days') as old from market.candles`,
  )
  return rows[0] ?? { recent: 0, old: 0 }
}
