import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Recorder, startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type FakeService, startFakeService } from '../../support/fakeService.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const patience = { timeout: 60_000 }
const dataDir = temporaryFolder('cut-off-lists')
let simulator: Simulator
let database: TestDatabase
let between: FakeService
let recorder: Recorder | undefined
/** Lists that are still to be cut off, by their requests. */
let cut = new Set<string>()

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createTestDatabase()
  between = await startFakeService((request, response) => {
    const { url = '' } = request
    const isCut = cut.delete(url)
    const forward = async () => {
      const answer = await fetch(simulator.url + url)
      const text = await answer.text()
      const body = isCut ? JSON.stringify(firstRowOnly(JSON.parse(text) as Envelope)) : text
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(body)
    }
    forward().catch(() => response.destroy())
  })
})
afterEach(async () => {
  await recorder?.stop()
  await between.close()
  await simulator.close()
  await database.drop()
})

interface Envelope {
  readonly data: readonly unknown[]
}
const firstRowOnly = (envelope: Envelope) => ({ ...envelope, data: envelope.data.slice(0, 1) })

async function start(): Promise<Recorder> {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: between.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  config.streams.instruments.schedule = '0 0 0 29 2 *'
  // Retries come at once.
  const after = (ms: number, action: () => void) => systemClock.after(ms >= 10_000 ? ms / 100 : ms, action)
  recorder = await startRecorder(config, createLogger('silent'), { clock: { ...systemClock, after } })
  await expect.poll(() => recorder?.collector.phase, patience).toBe('collecting')
  return recorder
}

const recorded = ({ collector: { stats } }: Recorder) =>
  [stats.order_books, stats.rpi_order_books, stats.fills, stats.candles].map(({ targets }) => targets)
const listed = async () => {
  const { rows } = await database.database.pool.query<object>(
    'select category, symbol from market.instruments where disappeared_at is null order by 1, 2',
  )
  return rows
}
const asked = () => between.requests.filter((url) => /\/(instruments|rpi-symbols)\b/.test(url))

test('cut-off lists at a start take no instrument from the recording, and are asked for again soon', async () => {
  const first = await start()
  const before = recorded(first)
  await expect.poll(async () => (await listed()).length, patience).toBeGreaterThan(10)
  await first.stop()
  const all = await listed()
  const lists = [...new Set(asked())]
  cut = new Set(lists)
  const count = asked().length
  const second = await start()
  expect(recorded(second)).toEqual(before)
  expect(second.collector.incidents.recent().map(({ what }) => what)).toContain('instruments list')
  await expect.poll(() => cut.size, patience).toBe(0)
  await expect.poll(() => asked().length - count, patience).toBeGreaterThan(lists.length)
  expect(recorded(second)).toEqual(before)
  expect(await listed()).toEqual(all)
})
