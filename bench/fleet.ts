import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { Check } from './figures.js'
import { atLeast, atMost, eight, limitFactor, limits, rejectedOf } from './fleetChecks.js'
import { benchFaults } from './fleetFaults.js'
import { benchRolling } from './fleetRolling.js'
import { openFleetBench } from './fleetSetup.js'
import { askedBooks, longestOverlapMs } from './fleetTruth.js'

/** Eight recorders on addresses of their own against limits of a fifth: what they record together, what accidents cost, and a restart of one after another. */
export async function benchFleet(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: { type: 'string', default: 'share,faults,rolling' },
      seconds: { type: 'string', default: '40' },
      seeds: { type: 'string', default: '1,2,3' },
    },
  })
  const checks: Check[] = []
  if (values.only.includes('share')) checks.push(...(await benchShare(Number(values.seconds))))
  if (values.only.includes('faults')) {
    for (const seed of values.seeds.split(',')) checks.push(...(await benchFaults(Number(seed))))
  }
  if (values.only.includes('rolling')) checks.push(...(await benchRolling()))
  const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'ok' : 'MISSED'])
  console.log(table.toString())
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}

/** Order books only: they ask for all that the limits leave room for, so that nothing else decides how much that is. */
async function benchShare(seconds: number): Promise<Check[]> {
  const config = {
    exchange: { limits },
    streams: {
      tickers: { watchSeconds: 0 },
      orderBooks: { everySeconds: 2, depth: 5, select: { kinds: ['crypto', 'rwa_perpetual', 'metal'] } },
      rpiOrderBooks: { enabled: false },
      fills: { enabled: false },
      candles: { enabled: false },
    },
    serve: { enabled: false },
  }
  const measure = async (addresses: readonly number[]) => {
    const bench = await openFleetBench(1, limitFactor)
    try {
      for (const address of addresses) {
        await bench.start(address, config)
        await sleep(1_500)
      }
      await sleep(25_000)
      const from = bench.simulator.control.journal().length
      const rows = async () =>
        (await bench.database.pool.query<{ count: number }>('select count(*)::int as count from market.order_books'))
          .rows[0]?.count ?? 0
      const rowsBefore = await rows()
      await sleep(seconds * 1000)
      const journal = bench.simulator.control.journal().slice(from)
      const books = journal.filter(({ operation }) => operation === 'orderbook')
      return {
        requests: books.length / seconds,
        rows: ((await rows()) - rowsBefore) / seconds,
        overlapMs: longestOverlapMs(askedBooks(journal), 10_000),
        rejected: rejectedOf(bench.simulator.control.report()),
        lists: new Set(
          journal
            .filter(({ operation }) => operation === 'tickers')
            .map(({ source, parameters }) => `${parameters['category']} ${source}`),
        ).size,
      }
    } finally {
      await bench.close()
    }
  }
  const one = await measure([1])
  const all = await measure(eight)
  const ratio = (what: 'requests' | 'rows') => all[what] / (8 * one[what])
  return [
    atLeast(
      'requests of eight, of eight times those of one',
      ratio('requests'),
      0.95,
      `${all.requests.toFixed(1)}/s, one ${one.requests.toFixed(2)}/s`,
    ),
    atLeast(
      'rows of eight, of eight times those of one',
      ratio('rows'),
      0.95,
      `${all.rows.toFixed(1)}/s, one ${one.rows.toFixed(2)}/s`,
    ),
    atMost('requests rejected', one.rejected + all.rejected, 0),
    atMost('longest that two asked for the same book, s', all.overlapMs / 1000, 5),
    atMost('recorders of each ticker list (4 lists)', all.lists, 4),
  ]
}
