import { describe, expect, test } from 'vitest'
import type { ServedResponse } from '../../../src/simulator/control.js'
import { startSimulator } from '../../../src/simulator/server.js'
import { ask, noon, start, stopAfterEach } from './requests.js'

stopAfterEach()

describe('journal', () => {
  test('holds every answer with its parameters and data, the numbers of books as their text', async () => {
    const simulator = await start()
    const { data } = await ask(simulator, 'tickers?category=USDC-FUTURES')
    await ask(simulator, 'orderbook?category=SPOT&symbol=WEIUSDT&limit=2')
    await ask(simulator, 'tickers?category=MOON')
    expect(simulator.control.journal()).toEqual<ServedResponse[]>([
      {
        atMs: noon,
        source: '127.0.0.1',
        operation: 'tickers',
        parameters: { category: 'USDC-FUTURES' },
        status: 200,
        delivered: 'complete',
        deliveredAtMs: expect.any(Number) as number,
        data,
      },
      {
        atMs: noon,
        source: '127.0.0.1',
        operation: 'orderbook',
        parameters: { category: 'SPOT', symbol: 'WEIUSDT', limit: '2' },
        status: 200,
        delivered: 'complete',
        deliveredAtMs: expect.any(Number) as number,
        data: simulator.world.orderBook('SPOT', 'WEIUSDT', noon, 2),
      },
      {
        atMs: noon,
        source: '127.0.0.1',
        operation: 'tickers',
        parameters: { category: 'MOON' },
        status: 400,
        delivered: 'complete',
        deliveredAtMs: expect.any(Number) as number,
        data: null,
      },
    ])
    simulator.control.clearJournal()
    expect(simulator.control.journal()).toEqual([])
  })

  test('is empty unless it is switched on', async () => {
    const simulator = await start({ journal: false })
    await ask(simulator, 'rpi-symbols')
    expect(simulator.control.journal()).toEqual([])
  })
})

describe('for other processes', () => {
  test('report, faults and journal over HTTP, none of it counted', async () => {
    const simulator = await start()
    const control = (path: string, init?: RequestInit) => fetch(`${simulator.url}/simulator/${path}`, init)
    await ask(simulator, 'rpi-symbols')
    expect(await (await control('report')).json()).toEqual(simulator.control.report())
    expect(simulator.control.report()['127.0.0.1']?.overall.requests).toBe(1)

    const lines = (await (await control('journal')).text()).trimEnd().split('\n')
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual(simulator.control.journal())
    await control('journal/clear', { method: 'POST' })
    expect(simulator.control.journal()).toEqual([])

    await control('faults', { method: 'POST', body: '[{"kind":"http","status":500}]' })
    expect((await ask(simulator, 'rpi-symbols')).status).toBe(500)
    const wrong = await control('faults', { method: 'POST', body: '[{"kind":"http"}]' })
    expect(wrong.status).toBe(400)
    expect(((await wrong.json()) as { error: string }).error).not.toContain('\n')
    expect((await control('faults', { method: 'POST', body: 'x' })).status).toBe(400)
    expect((await control('nothing')).status).toBe(404)
  })

  test('quirks, instruments and splits can be changed from other processes', async () => {
    const simulator = await start()
    const post = async (path: string, body: unknown) => {
      const response = await fetch(`${simulator.url}/simulator/${path}`, { method: 'POST', body: JSON.stringify(body) })
      return { status: response.status, answer: (await response.json()) as { at?: number; error?: string } }
    }
    expect((await post('quirks', { tickerTsZero: 1 })).status).toBe(200)
    expect(simulator.control.quirks()).toMatchObject({ tickerTsZero: 1, brotli: false })
    const odd = { category: 'SPOT', symbol: 'ODDUSDT', launchTime: 0, book: 'frozen', fillsPerHour: 60 }
    expect((await post('instruments', [odd])).status).toBe(200)
    expect(simulator.world.find('SPOT', 'ODDUSDT')).toMatchObject({ book: 'frozen', fillsPerHour: 60 })
    const split = await post('splits', { category: 'SPOT', symbol: 'ODDUSDT', factor: 4, atMs: noon })
    expect(split.answer.at).toBe(noon)
    expect(simulator.world.find('SPOT', 'ODDUSDT')?.splits).toEqual([{ at: noon, factor: 4, relists: true }])
    for (const [path, body] of [
      ['quirks', { tickerTsZero: 2 }],
      ['quirks', { noSuchQuirk: 1 }],
      ['instruments', [{ ...odd, book: 'closed' }]],
      ['splits', { category: 'SPOT', symbol: 'NOPE', factor: 4 }],
    ] as const) {
      const { status, answer } = await post(path, body)
      expect(status).toBe(400)
      expect(answer.error).toMatch(/^[^\n]+$/)
    }
  })
})

describe('the market while it runs', () => {
  test('an instrument is listed, traded and delisted', async () => {
    let now = noon
    const simulator = await start({ now: () => now })
    const launchTime = noon + 1_000
    const symbols = async () => (await ask(simulator, 'instruments?category=SPOT')).rows.map((row) => row['symbol'])
    const before = await symbols()
    simulator.control.list({ category: 'SPOT', symbol: 'NEWUSDT', launchTime, fillsPerHour: 36_000 })
    expect(await symbols()).toHaveLength(before.length + 1)
    expect((await ask(simulator, 'tickers?category=SPOT&symbol=NEWUSDT')).rows).toEqual([])
    now = launchTime + 60_000
    expect((await ask(simulator, 'tickers?category=SPOT&symbol=NEWUSDT')).rows).toHaveLength(1)
    const { rows } = await ask(simulator, 'fills?category=SPOT&symbol=NEWUSDT')
    expect(rows.every((row) => Number(row['ts']) >= launchTime)).toBe(true)
    simulator.control.delist('SPOT', 'NEWUSDT', now + 1_000)
    now += 1_000
    expect(await symbols()).toEqual(before)
    expect((await ask(simulator, 'fills?category=SPOT&symbol=NEWUSDT')).code).toBe('40309')
  })

  test('exactly the given instruments, as busy as they are said to be', async () => {
    const simulator = await start({
      customInstruments: [{ category: 'SPOT', symbol: 'ONLYUSDT' }],
      activity: { perHour: { ONLYUSDT: 3_600 }, burstiness: 0 },
    })
    expect((await ask(simulator, 'instruments?category=SPOT')).rows).toHaveLength(1)
    const fills = simulator.world.fills('SPOT', 'ONLYUSDT', noon - 36_000_000, noon)
    expect(fills.length / 10).toBeGreaterThan(2_800)
    expect(fills.length / 10).toBeLessThan(4_400)
  })

  test('the same seed gives the same market, another seed another one', async () => {
    const text = async (seed: number) => (await ask(await start({ seed }), 'tickers?category=SPOT')).text
    expect(await text(4)).toBe(await text(4))
    expect(await text(4)).not.toBe(await text(5))
  })
})

describe('start', () => {
  test('a port that is taken is said in one line', async () => {
    const { port } = await start()
    await expect(startSimulator({ port })).rejects.toThrow(
      `cannot listen on 127.0.0.1:${port}: the port is taken; choose another`,
    )
  })

  test('the travelling time is over before an arrival is counted', async () => {
    const simulator = await start({ latencyMs: [40, 60] })
    const begin = performance.now()
    const answer = ask(simulator, 'rpi-symbols')
    expect(simulator.control.report()).toEqual({})
    await answer
    expect(performance.now() - begin).toBeGreaterThanOrEqual(39)
    expect(simulator.control.report()['127.0.0.1']?.overall.requests).toBe(1)
  })
})
