import { expect, test } from 'vitest'
import { PagesInHand } from '../../../src/history/pagesInHand.js'

/** What is asked for and without a response, of each kind; `respond` responds to the oldest of one. */
function service() {
  const pages = new PagesInHand()
  const asked = new Map<string, (() => void)[]>()
  return {
    want: (count: number, kind: 'repair' | 'backfill', operation: 'candles' | 'history-candles') => {
      const key = `${kind} ${operation}`
      for (let page = 0; page < count; page++)
        void pages.ask(
          kind,
          operation,
          () => new Promise<void>((resolve) => asked.set(key, [...(asked.get(key) ?? []), resolve])),
        )
    },
    respond: (key: string) => asked.get(key)?.shift()?.(),
    askedFor: (key: string) => asked.get(key)?.length ?? 0,
  }
}

/** Whatever has a place has it by then. */
const settled = () => new Promise((resolve) => setImmediate(resolve))

test('recent pages of a backfill keep neither those of a repair waiting nor the older ones', async () => {
  const { want, askedFor } = service()
  want(80, 'backfill', 'candles')
  want(2, 'repair', 'candles')
  want(10, 'backfill', 'history-candles')
  await settled()
  expect(askedFor('backfill candles')).toBe(12)
  expect(askedFor('repair candles')).toBe(2)
  expect(askedFor('backfill history-candles')).toBe(10)
})

test('no more than 32 are asked for at once, and the next one follows each response', async () => {
  const { want, respond, askedFor } = service()
  want(40, 'backfill', 'history-candles')
  want(40, 'repair', 'candles')
  await settled()
  expect(askedFor('backfill history-candles') + askedFor('repair candles')).toBe(32)
  for (let page = 0; page < 8; page++) respond('backfill history-candles')
  await settled()
  expect(askedFor('backfill history-candles')).toBe(32)
  respond('backfill history-candles')
  await settled()
  expect(askedFor('repair candles')).toBe(1)
})
