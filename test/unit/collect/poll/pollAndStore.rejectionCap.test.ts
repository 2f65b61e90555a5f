import { expect, test } from 'vitest'
import { RejectionCap } from '../../../../src/collect/poll/pollAndStore.js'
import { rejectedRow } from '../../../../src/market/rejectedRow.js'

const hourMs = 3_600_000
const at = 500_000 * hourMs
const rejected = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, i) =>
    rejectedRow({ operation: 'fills', parameters: {} }, 'broken', `${from + i}`),
  )
const batch = (stream: 'fills' | 'tickers', rows: ReturnType<typeof rejected>, unkept = 0) => ({
  stream,
  target: {},
  requestTime: at,
  receivedAt: at,
  rows: [],
  rejected: rows,
  unkept,
})

test('keeps a thousand different rejected rows of a stream in an hour, and counts the others', () => {
  const cap = new RejectionCap()
  expect(cap.apply(batch('fills', rejected(0, 900)), at)).toMatchObject({ rejected: { length: 900 }, unkept: 0 })
  expect(cap.apply(batch('fills', rejected(800, 1_200), 5), at + 1)).toMatchObject({
    rejected: { length: 200 },
    unkept: 205,
  })
  // What is kept already costs nothing.
  expect(cap.apply(batch('fills', rejected(0, 900)), at + 2)).toMatchObject({ rejected: { length: 900 }, unkept: 0 })
  expect(cap.apply(batch('tickers', rejected(0, 10)), at)).toMatchObject({ rejected: { length: 10 } })
  expect(cap.apply(batch('fills', rejected(2_000, 2_010)), at + hourMs)).toMatchObject({ rejected: { length: 10 } })
})
