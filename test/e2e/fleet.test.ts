import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, type Running, startProgram } from '../support/program.js'

let simulator: Simulator
let database: TestDatabase
let folder: string

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny', journal: true })
  database = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-fleet-'))
})
afterEach(async () => {
  await endPrograms()
  await simulator.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

async function startDaemon(address: string): Promise<Running> {
  const config = join(folder, `${address}.json`)
  const settings = {
    database: { dataDir: join(folder, address) },
    exchange: { localAddress: address },
    collector: { egress: address, allowOverload: true },
    streams: {
      tickers: { schedule: '* * * * * *' },
      orderBooks: { everySeconds: 1, depth: 5, select: { busiest: 10 } },
      rpiOrderBooks: { enabled: false },
      fills: { enabled: false },
      candles: { enabled: false },
    },
    serve: { enabled: false },
  }
  await writeFile(config, JSON.stringify(settings))
  const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url }
  return startProgram(['start', '--config', config], env)
}

/** What an address has asked for since a moment: books by their symbol, lists by their category. */
const asked = (address: string, since: number, operation = 'orderbook') =>
  new Set(
    simulator.control
      .journal()
      .filter((response) => response.source === address && response.atMs > since && response.operation === operation)
      .map(({ parameters }) => `${parameters['category']} ${parameters['symbol'] ?? ''}`),
  )
const eventually = <T>(check: () => T | Promise<T>) => vi.waitFor(check, { timeout: 120_000, interval: 100 })
const settled = async (first: string, second: string, count: number) => {
  await eventually(async () => {
    const since = Date.now()
    await new Promise((resolve) => setTimeout(resolve, 2_500))
    const [one, other] = [asked(first, since), asked(second, since)]
    expect(one.size + other.size).toBe(count)
    expect(one.size).toBeGreaterThan(0)
    expect(other.size).toBeGreaterThan(0)
    expect([...one].filter((key) => other.has(key))).toEqual([])
    const lists = [asked(first, since, 'tickers'), asked(second, since, 'tickers')] as const
    expect([...lists[0]].filter((key) => lists[1].has(key))).toEqual([])
  })
}
const [one, two] = ['127.0.0.2', '127.0.0.3'] as const

test('two recorders share the work, take over from one that is frozen or dies, and one that wakes asks before it sends', async () => {
  const first = await startDaemon(one)
  await eventually(() => expect(asked(one, 0).size).toBeGreaterThanOrEqual(10))

  const second = await startDaemon(two)
  await settled(one, two, 10)

  first.process.kill('SIGSTOP')
  const stoppedAt = Date.now()
  await eventually(() => expect(asked(two, stoppedAt + 3_000).size).toBeGreaterThanOrEqual(10))

  first.process.kill('SIGCONT')
  await settled(one, two, 10)

  second.process.kill('SIGKILL')
  const killedAt = Date.now()
  await eventually(() => expect(asked(one, killedAt).size).toBeGreaterThanOrEqual(10))
  await eventually(() => expect(asked(one, killedAt, 'tickers').size).toBe(4))
})
