import { expect, test } from 'vitest'
import { fetchPages } from '../../../src/history/pagesWalk.js'
import { subtract, type TimeRange, union } from '../../../src/market/timeRange.js'
import { dayMs, hourMs, minuteMs } from '../../../src/market/values.js'

const now = Date.UTC(2026, 10, 20)
const series = { category: 'USDT-FUTURES', symbol: 'BTCUSDT', stream: 'liquidations', type: '', interval: '' } as const

test('the silence beyond all rows is claimed with the rows next to it, and not with all rows once more', async () => {
  const rows = Array.from({ length: 5_001 }, (_, place) => ({ ts: now - hourMs - place * minuteMs }))
  const given: number[] = []
  let claimed: readonly TimeRange[] = []
  const range = { from: now - 30 * dayMs, to: now - 10 * minuteMs }
  await fetchPages<(typeof rows)[number]>(
    {
      reachMs: new Map([[series.category, 60 * dayMs]]),
      pageRows: 100,
      next: (_, query, cursor) => (cursor === undefined ? null : { ...query, limit: 100, cursor }),
      ask(_, { limit, cursor = '0' }) {
        const end = Number(cursor) + limit
        const page = { rows: rows.slice(Number(cursor), end), rejected: [], unkept: 0, requestTime: now }
        return Promise.resolve((end < rows.length ? { ...page, cursor: String(end) } : page) as never)
      },
      textOf: ({ ts }) => String(ts),
      store({ rows: some, proven, silent }) {
        given.push(some.length)
        claimed = union(claimed, union(proven, silent))
        return Promise.resolve({ inserted: some.length, proven: union(proven, silent) })
      },
      explain: () => Promise.resolve(),
      confirmsEnd: true,
    },
    series,
    [range],
    {
      client: {} as never,
      request: {},
      counts: { received: 0, inserted: 0 },
      ask: (request) => request(),
      now: () => now,
    },
  )
  expect(subtract([range], claimed)).toEqual([])
  // Two rows join a page to the one before.
  expect(Math.max(...given)).toBeLessThanOrEqual(102)
})
