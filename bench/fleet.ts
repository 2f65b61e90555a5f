import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { benchFaults } from './fleet/departures.js'
import { countRejected, eight, limits, withFleet } from './fleet/setup.js'
import { askedBooks, longestOverlapMs } from './fleet/owners.js'
import { atLeast, atMost, type Check, printChecks, none } from './tools/checks.js'

/** Eight recorders on addresses of their own: what they record together, and the cost of accidents. */
export async function benchFleet(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: { type: 'string', default: 'share,faults' },
      seconds: { type: 'string', default: '40' },
      seeds: { type: 'string', default: '1,2,3' },
    },
  })
  const parts = values.only.split(',')
  const checks: Check[] = []
  if (parts.includes('share')) checks.push(...(await benchShare(Number(values.seconds))))
  if (parts.includes('faults')) {
    for (const seed of values.seeds.split(',')) checks.push(...(await benchFaults(Number(seed))))
  }
  return printChecks(checks)
}

async function benchShare(seconds: number): Promise<Check[]> {
  const one = await measureShare([1], seconds)
  const all = await measureShare(eight, seconds)
  const checkRate = (what: 'requests' | 'rows') =>
    atLeast(`${what} of eight, of eight times those of one`, all[what] / (8 * one[what]), 0.95, {
      decimals: 3,
      detail: `${all[what].toFixed(1)}/s, one ${one[what].toFixed(2)}/s`,
    })
  return [
    checkRate('requests'),
    checkRate('rows'),
    none('requests rejected', one.rejected + all.rejected),
    atMost('longest that two asked for the same book, s', all.overlapMs / 1000, 5, { decimals: 1 }),
    atMost('recorders of each ticker list (4 lists)', all.lists, 4),
  ]
}

/** Order books alone take all that the limits leave room for: nothing else decides how much recorders ask for. */
const booksAlone = {
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

async function measureShare(addresses: readonly number[], seconds: number) {
  return withFleet(1, async (bench) => {
    for (const address of addresses) {
      await bench.start(address, booksAlone)
      await sleep(1_500)
    }
    await sleep(25_000)
    const { control } = bench.simulator
    const countRows = async () =>
      (await bench.database.pool.query<{ count: number }>('select count(*)::int as count from market.order_books'))
        .rows[0]?.count ?? 0
    const [from, rowsBefore] = [control.journal().length, await countRows()]
    await sleep(seconds * 1000)
    const journal = control.journal().slice(from)
    const lists = journal
      .filter(({ operation }) => operation === 'tickers')
      .map(({ source, parameters }) => `${parameters['category']} ${source}`)
    return {
      requests: journal.filter(({ operation }) => operation === 'orderbook').length / seconds,
      rows: ((await countRows()) - rowsBefore) / seconds,
      overlapMs: longestOverlapMs(askedBooks(journal), 10_000),
      rejected: countRejected(control.report()),
      lists: new Set(lists).size,
    }
  })
}
