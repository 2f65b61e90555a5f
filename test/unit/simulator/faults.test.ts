import { describe, expect, test } from 'vitest'
import type { Fault } from '../../../src/simulator/faults.js'
import { ask, noon, start, stopAfterEach } from './requests.js'

stopAfterEach()
const page = 'tickers?category=SPOT'

async function answerWith(fault: Fault) {
  const simulator = await start({ faults: [fault] })
  return ask(simulator, page)
}

describe('content', () => {
  test('http: a status and a body of its own', async () => {
    expect(await answerWith({ kind: 'http', status: 503, body: 'upgrading' })).toMatchObject({
      status: 503,
      text: 'upgrading',
    })
  })

  test('html, emptyBody, oldEnvelope, numericCode and errorCode are no data', async () => {
    expect((await answerWith({ kind: 'html' })).text).toContain('<!DOCTYPE html>')
    expect(await answerWith({ kind: 'emptyBody' })).toMatchObject({ status: 200, text: '' })
    expect((await answerWith({ kind: 'oldEnvelope' })).text).toContain('"err_code"')
    expect((await answerWith({ kind: 'numericCode', code: 40_808 })).text).toContain('"code":40808,')
    expect((await answerWith({ kind: 'errorCode', code: '45001' })).text).toContain('"code":"45001"')
  })

  test('browserCheck: a page with status 403', async () => {
    expect(await answerWith({ kind: 'browserCheck' })).toMatchObject({ status: 403, code: null })
    expect((await answerWith({ kind: 'browserCheck' })).text).toContain('Checking your browser')
  })

  test('hugeBody: more bytes than any answer has', async () => {
    const { text, code } = await answerWith({ kind: 'hugeBody', bytes: 300_000 })
    expect(text.length).toBeGreaterThan(300_000)
    expect(code).toBe('00000')
  })

  test('block: the address is refused for the time of a block', async () => {
    const simulator = await start({ faults: [{ kind: 'block', count: 1 }], limits: {} })
    expect((await ask(simulator, page)).status).toBe(429)
    expect((await ask(simulator, 'rpi-symbols')).status).toBe(429)
    expect(simulator.control.report()['127.0.0.1']?.overall.blocks).toBe(1)
  })
})

describe('connection', () => {
  test('reset: the connection is lost before an answer', async () => {
    await expect(answerWith({ kind: 'reset' })).rejects.toThrow('fetch failed')
  })

  test('noResponse: the client has to give up', async () => {
    const simulator = await start({ faults: [{ kind: 'noResponse' }] })
    await expect(ask(simulator, page, AbortSignal.timeout(1000))).rejects.toThrow(/timeout/)
    expect(simulator.control.journal()).toMatchObject([{ delivered: 'none', data: null }])
  })

  test.each(['length', 'chunked'] as const)('tornBody: half a body, cut by %s', async (cut) => {
    const simulator = await start({ faults: [{ kind: 'tornBody', cut }] })
    await expect(ask(simulator, page)).rejects.toThrow('terminated')
    expect(simulator.control.journal()).toMatchObject([{ status: 200, delivered: 'torn' }])
  })

  test('latency and slowBody: the answer is late, but whole', async () => {
    const simulator = await start({
      faults: [
        { kind: 'latency', minMs: 20, maxMs: 30 },
        { kind: 'slowBody', overMs: 50 },
      ],
    })
    const begin = performance.now()
    const { code } = await ask(simulator, page)
    expect(code).toBe('00000')
    expect(performance.now() - begin).toBeGreaterThan(60)
    expect(simulator.control.journal()).toMatchObject([{ delivered: 'complete' }])
  })

  test('down: connections are refused, then accepted on the same port', async () => {
    let now = noon
    const simulator = await start({ now: () => now })
    expect((await ask(simulator, page)).status).toBe(200)
    simulator.control.addFault({ kind: 'down', fromMs: noon, toMs: noon + 1_000 })
    await refused()
    now = noon + 1_000
    const answered = async (): Promise<number> => {
      try {
        return (await ask(simulator, page)).status
      } catch {
        return answered()
      }
    }
    expect(await answered()).toBe(200)

    async function refused(): Promise<void> {
      for (;;) {
        try {
          await ask(simulator, page)
        } catch (error) {
          if (String((error as Error & { cause?: { code?: string } }).cause?.code) === 'ECONNREFUSED') return
        }
      }
    }
  })
})

describe('when a fault strikes', () => {
  test('only the named operations, and only so often', async () => {
    const simulator = await start({ faults: [{ kind: 'http', status: 500, operations: ['tickers'], count: 2 }] })
    const statuses: number[] = []
    for (const request of ['rpi-symbols', page, page, page]) statuses.push((await ask(simulator, request)).status)
    expect(statuses).toEqual([200, 500, 500, 200])
  })

  test('with a probability drawn from the seed: the same again for the same seed', async () => {
    const statuses = async () => {
      const simulator = await start({ seed: 9, faults: [{ kind: 'http', status: 500, probability: 0.5 }] })
      const list: number[] = []
      for (let i = 0; i < 12; i++) list.push((await ask(simulator, 'rpi-symbols')).status)
      return list
    }
    const first = await statuses()
    expect(new Set(first).size).toBe(2)
    expect(await statuses()).toEqual(first)
  })

  test("within its time by the service's clock", async () => {
    let now = noon
    const fault = { kind: 'http', status: 502, fromMs: noon + 10, toMs: noon + 20 } as const
    const simulator = await start({ now: () => now, faults: [fault] })
    const statuses: number[] = []
    for (const at of [0, 10, 19, 20]) {
      now = noon + at
      statuses.push((await ask(simulator, 'rpi-symbols')).status)
    }
    expect(statuses).toEqual([200, 502, 502, 200])
  })

  test('clockSkew: the clock and the market are off by as much', async () => {
    const simulator = await start({ faults: [{ kind: 'clockSkew', ms: -3_600_000 }] })
    const { requestTime, data } = await ask(simulator, 'orderbook?category=SPOT&symbol=BTCUSDT')
    expect(requestTime).toBe(noon - 3_600_000)
    expect((data as { ts: string }).ts).toBe(String(noon - 3_600_000))
    simulator.control.clearFaults()
    expect((await ask(simulator, 'rpi-symbols')).requestTime).toBe(noon)
  })

  test('a fault that is not well-formed is refused, and the others stay', async () => {
    const simulator = await start({ faults: [{ kind: 'http', status: 500 }] })
    expect(() => simulator.control.setFaults([{ kind: 'html' }, { kind: 'http', status: 200 }])).toThrow()
    expect((await ask(simulator, page)).status).toBe(500)
  })
})
