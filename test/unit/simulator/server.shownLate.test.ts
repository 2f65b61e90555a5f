import { expect, test } from 'vitest'
import { ask, noon, start, stopAfterEach } from './requests.js'

stopAfterEach()
const minuteMs = 60_000
const minute = noon - 30_000

test('fillsBehindMs: the newest fills are shown a little later', async () => {
  let now = noon
  const simulator = await start({ now: () => now })
  simulator.control.list({ category: 'SPOT', symbol: 'BUSYUSDT', launchTime: 0, fillsPerHour: 360_000 })
  const inAll = async () => {
    const behind: number[] = []
    for (now = noon; now < noon + 40_000; now += 1_000)
      behind.push(now - Number((await ask(simulator, 'fills?category=SPOT&symbol=BUSYUSDT')).rows[0]?.['ts']))
    return behind
  }
  const before = await inAll()
  simulator.control.setQuirks({ fillsBehindMs: 60_000 })
  const after = await inAll()
  expect(after.every((ms, i) => ms >= (before[i] ?? 0))).toBe(true)
  expect(Math.max(...after)).toBeGreaterThan(Math.max(...before) + 10_000)
})

test('candlesBehindMs: candles are shown as they were a little earlier, closed ones, too', async () => {
  let now = minute
  const simulator = await start({ now: () => now })
  simulator.control.list({ category: 'SPOT', symbol: 'BUSYUSDT', launchTime: 0, fillsPerHour: 360_000 })
  const candle = 'candles?category=SPOT&symbol=BUSYUSDT&interval=1m&limit=2'
  const volume = async () =>
    ((await ask(simulator, candle)).data as readonly string[][]).find(
      (row) => Number(row[0]) === minute - minuteMs,
    )?.[5]
  const closed = await volume()
  simulator.control.setQuirks({ candlesBehindMs: 5_000 })
  const seen = new Set<string | undefined>()
  for (now = minute; now < minute + 5_000; now += 100) seen.add(await volume())
  expect(seen.size).toBeGreaterThan(3)
  for (now = minute + 5_000; now < minute + 10_000; now += 500) expect(await volume()).toBe(closed)
})
