import { enabledStreams } from '../../../src/collect/streams/streams.js'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { openExchange } from '../../../src/app.js'
import { Failed } from '../../../src/cli/end.js'
import { planCommand, refuseOverload } from '../../../src/cli/plan.js'
import type { Plan } from '../../../src/collect/plan/plan.js'
import { readUniverse } from '../../../src/collect/universe/universe.js'
import { type Config, loadConfig } from '../../../src/config/resolve.js'
import type { ExchangeError } from '../../../src/exchange/errors.js'
import { categories } from '../../../src/market/category.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { TestRight } from '../../support/rights.js'

let simulator: Simulator
beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
})
afterAll(() => simulator.close())
afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

/** Nobody listens on the discard port of the loopback address. */
const unreachable = 'http://127.0.0.1:9'

function configFor(baseUrl: string, change: (config: Config) => void = () => {}): Config {
  const config = loadConfig({ env: { EXCHANGE_BASE_URL: baseUrl } })
  change(config)
  return config
}

const asksTooMuch = (config: Config) => {
  config.streams.orderBooks.everySeconds = 1
  config.streams.orderBooks.select.busiest = Infinity
  config.exchange.limits.perSecond.orderbook = 5
}

function captureOutput() {
  let errors = ''
  let output = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    errors += String(text)
    return true
  })
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += String(text)
    return true
  })
  return { errors: () => errors, output: () => output }
}

describe('readUniverse', () => {
  test('knows the instruments of all categories, their turnover and their RPI membership', async () => {
    const client = openExchange(new TestRight(), configFor(simulator.url), createLogger('silent'))
    const missing: string[] = []
    const universe = await readUniverse(client, new AbortController().signal, (error) =>
      missing.push(error.message),
    ).finally(() => client.close())
    expect(missing).toEqual([])
    const { instruments } = universe.planned()
    expect(new Set(instruments.map(({ category }) => category)).size).toBe(5)
    expect(instruments.some(({ hasRpi }) => hasRpi)).toBe(true)
    expect(instruments.some(({ turnover24h }) => Number(turnover24h) > 0)).toBe(true)
    expect(instruments.filter(({ category }) => category === 'MARGIN').every((i) => i.turnover24h === null)).toBe(true)
  })

  test('a category that the service does not know any more is told, and the others are planned for', async () => {
    const client = openExchange(new TestRight(), configFor(simulator.url), createLogger('silent'))
    const missing: string[] = []
    const read = () =>
      readUniverse(
        client,
        new AbortController().signal,
        (error) => void missing.push(`${error.operation} ${error.kind}`),
      )
    try {
      simulator.control.setQuirks({ missingCategories: [{ category: 'USDC-FUTURES', code: '40019' }] })
      const { instruments } = (await read()).planned()
      expect(missing.toSorted()).toEqual(['instruments unknown-category', 'tickers unknown-category'])
      expect(new Set(instruments.map(({ category }) => category)).size).toBe(4)
      const all = categories.map((category) => ({ category, code: '40034' as const }))
      simulator.control.setQuirks({ missingCategories: all })
      await expect(read()).rejects.toThrow('unknown-category')
    } finally {
      simulator.control.setQuirks({ missingCategories: [] })
      client.close()
    }
  })
})

describe('refuseOverload', () => {
  const admit = async (config: Config, options: Parameters<typeof refuseOverload>[1] = {}) => {
    const client = openExchange(new TestRight(), config, createLogger('silent'))
    const read = (onMissing: (error: ExchangeError) => void) =>
      readUniverse(client, new AbortController().signal, onMissing)
    await refuseOverload(config, options)(read).finally(() => client.close())
  }

  test('lets a configuration that fits pass without a word', async () => {
    const { errors } = captureOutput()
    await admit(configFor(simulator.url))
    expect(errors()).toBe('')
  })

  test('refuses what does not fit the instruments that the service lists, and says what to change', async () => {
    const { errors } = captureOutput()
    await expect(admit(configFor(simulator.url, asksTooMuch))).rejects.toThrow(Failed)
    expect(errors()).toContain(
      'raise streams.orderBooks.everySeconds, or lower streams.orderBooks.select.busiest or set it to fit',
    )
    expect(errors()).toContain('--allow-overload')
  })

  test('starts it all the same when told to', async () => {
    await admit(configFor(simulator.url, asksTooMuch), { allowOverload: true })
  })

  test('refuses to start without the service, unless told to wait for it', async () => {
    await expect(admit(configFor(unreachable))).rejects.toThrow(/connection refused.*--wait/)
    const { errors } = captureOutput()
    await admit(configFor(unreachable, asksTooMuch), { wait: true })
    expect(errors()).toMatch(/^warning: .*connection refused.*waiting for it$/m)
  })
})

describe('plan', () => {
  const plan = (...options: string[]) => planCommand().parseAsync(options, { from: 'user' })

  test('prints JSON for what the service lists', async () => {
    vi.stubEnv('EXCHANGE_BASE_URL', simulator.url)
    const { output } = captureOutput()
    await plan('--json')
    const printed = JSON.parse(output()) as Plan
    expect(printed).toMatchObject({ fits: true, universe: { kind: 'listed' }, advice: [] })
    expect(printed.streams.map(({ stream }) => stream)).toEqual(
      enabledStreams(loadConfig({ env: {} })).map(({ name }) => name),
    )
  })

  test('warns of a category that is missing, and plans for the others', async () => {
    vi.stubEnv('EXCHANGE_BASE_URL', simulator.url)
    const { output, errors } = captureOutput()
    simulator.control.setQuirks({ missingCategories: [{ category: 'COIN-FUTURES', code: '40034' }] })
    try {
      await plan('--json')
    } finally {
      simulator.control.setQuirks({ missingCategories: [] })
    }
    const { universe } = JSON.parse(output()) as Plan
    expect(universe).toMatchObject({ kind: 'listed', instruments: { 'COIN-FUTURES': 0 } })
    expect(universe.instruments.SPOT).toBeGreaterThan(0)
    expect(errors()).toContain('warning: instruments COIN-FUTURES: unknown-category')
  })

  test('asks nobody when offline', async () => {
    vi.stubEnv('EXCHANGE_BASE_URL', unreachable)
    const { output, errors } = captureOutput()
    await plan('--offline')
    expect(output()).toContain('Instruments assumed: SPOT 3,393')
    expect(output()).toContain('It fits.')
    expect(errors()).toBe('')
  })

  test('says so when the service could not be asked', async () => {
    vi.stubEnv('EXCHANGE_BASE_URL', unreachable)
    const { errors } = captureOutput()
    await plan()
    expect(errors()).toMatch(/^warning: the service did not list its instruments, .*connection refused/)
    expect(errors().trim()).not.toContain('\n')
  })
})
