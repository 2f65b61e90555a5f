import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { InstrumentKey } from '../../../../src/market/category.js'
import type { Fill } from '../../../../src/market/fill.js'
import type { Batch } from '../../../../src/ledger/batch/batch.js'
import { NewestPages } from '../../../../src/ledger/batch/newestPages.js'
import { aFill, someTime } from '../../../support/marketRows.js'
import { batchOf } from '../../../support/sinkUnderTest.js'

/** A response with these fills, newest first, several in a millisecond. */
function pageOf(ids: readonly number[]): Batch<InstrumentKey, Fill> {
  // Nineteen digits, of which doubles hold sixteen.
  const rows = ids.map((id) => aFill({ execId: `12345678901234567${10 + id}`, ts: someTime + Math.floor(id / 3) }))
  return batchOf('fills', { category: 'SPOT', symbol: 'BTCUSDT' }, rows, someTime) as Batch<InstrumentKey, Fill>
}
const aPage = fc.uniqueArray(fc.nat({ max: 40 }), { maxLength: 30 }).map((ids) => ids.toSorted((a, b) => b - a))

it('what is not known to be stored is what the page before does not have, in whatever order the service gives it', () => {
  fc.assert(
    fc.property(aPage, aPage, fc.boolean(), (before, ids, isTurned) => {
      const known = new NewestPages()
      known.stored(pageOf(before))
      const page = pageOf(isTurned ? ids.toReversed() : ids)
      const { rows, knownUntil } = known.unknownOf(page)
      expect(rows).toEqual(page.rows.filter(({ execId }) => !before.includes(Number(execId.slice(-2)) - 10)))
      expect(knownUntil).toBe(before.length === 0 ? -Infinity : someTime + Math.floor((before[0] as number) / 3))
    }),
  )
})

it('nothing is known of an instrument that has none, of a page of which something was rejected, and of what was forgotten', () => {
  const known = new NewestPages()
  const page = pageOf([3, 2, 1])
  const nothing = { rows: page.rows, knownUntil: -Infinity }
  expect(known.unknownOf(page)).toEqual(nothing)
  known.stored({ ...page, unkept: 1 })
  expect(known.unknownOf(page)).toEqual(nothing)
  known.stored(page)
  expect(known.unknownOf({ ...page, target: { category: 'SPOT', symbol: 'ETHUSDT' } })).toEqual(nothing)
  expect(known.unknownOf(page).rows).toEqual([])
  known.forget()
  expect(known.unknownOf(page)).toEqual(nothing)
})

it.each(['', '0', '007', 'a1', '-1', '1e3', '1.0', '9'.repeat(25)])(
  'nothing is known of a page with %j, which is no number',
  (execId) => {
    const known = new NewestPages()
    known.stored(pageOf([3, 2, 1]))
    const odd = { ...pageOf([3]), rows: [aFill({ execId, ts: someTime })] }
    expect(known.unknownOf(odd).rows).toEqual(odd.rows)
    known.stored(odd)
    expect(known.unknownOf(odd)).toEqual({ rows: odd.rows, knownUntil: -Infinity })
  },
)
