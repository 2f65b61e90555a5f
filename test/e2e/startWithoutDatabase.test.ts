import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Status } from '../../src/serve/api/contract.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { compareTables } from '../chaos/compareTables.js'
import { untilSpooling } from '../chaos/spooling.js'
import { createEmptyDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, startProgram } from '../support/program.js'
import { storeSpooled } from '../support/storeSpooled.js'
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.js'

const settleMs = 5_000
let simulator: Simulator
let database: TestDatabase
let proxy: TcpProxy
let folder: string

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny', journal: true })
  // Not even migrated: what a new machine finds.
  database = await createEmptyDatabase()
  proxy = await startTcpProxy(database.url)
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-boot-'))
})
afterEach(async () => {
  await endPrograms()
  await proxy.close()
  await simulator.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

const within = { timeout: 120_000, interval: 200 }

test('a start before the database is there records to the disk, and stores it all when it comes', async () => {
  const config = join(folder, 'recorder.json')
  const dataDir = join(folder, 'data')
  const settings = {
    database: { dataDir },
    collector: { egress: 'one address', allowOverload: true },
    streams: { orderBooks: { everySeconds: 2 } },
    serve: { port: 0 },
  }
  await writeFile(config, JSON.stringify(settings))
  await proxy.refuse()
  const daemon = startProgram(['start', '--config', config], {
    DATABASE_URL: proxy.through(database.url),
    EXCHANGE_BASE_URL: simulator.url,
  })
  const spoolingAfterMs = await untilSpooling(join(dataDir, 'spool'), Date.now() + 120_000)
  console.log(`the first answer was on the disk after ${spoolingAfterMs} ms`)
  const [, url] = await daemon.printed(/the page is at (http:\S+?)["\s]/)
  const status = async () => (await (await fetch(`${url}/api/status`)).json()) as Status
  await vi.waitFor(async () => {
    const { maySend, spool, database: state, problems } = await status()
    expect({ maySend, isReachable: state.isReachable }).toEqual({ maySend: true, isReachable: false })
    expect(spool.bytes).toBeGreaterThan(0)
    expect(problems.map(({ message }) => message)).toContainEqual(expect.stringMatching(/away since the start/))
  }, within)
  await sleep(3_000)

  const backAt = Date.now()
  await proxy.restore()
  await vi.waitFor(async () => {
    const { maySend, spool, database: state } = await status()
    expect({ maySend, isReachable: state.isReachable }).toEqual({ maySend: true, isReachable: true })
    expect(spool).toMatchObject({ bytes: 0, since: null, droppedRows: 0 })
  }, within)
  const { rows } = await database.database.pool.query<{ early: number }>(
    'select count(*)::int as early from market.order_books where received_at < $1',
    [new Date(backAt)],
  )
  expect(rows[0]?.early).toBeGreaterThan(0)
  const stoppedAt = Date.now()
  daemon.process.kill('SIGTERM')
  expect((await daemon.finished).exitCode).toBe(0)
  // A busy database may have taken too long at the end.
  await storeSpooled(dataDir, database.database)
  const served = simulator.control.journal()
  const reports = await compareTables(database.database.pool, served, [], [], settleMs, stoppedAt)
  expect(reports.flatMap(({ wrong }) => wrong)).toEqual([])
})

test('a machine that shared its address with another one keeps still until the database says who sends', async () => {
  const dataDir = join(folder, 'shared')
  const config = join(folder, 'shared.json')
  await writeFile(
    config,
    JSON.stringify({
      database: { dataDir },
      collector: { egress: 'a shared address', allowOverload: true },
      serve: { enabled: false },
    }),
  )
  const env = { DATABASE_URL: proxy.through(database.url), EXCHANGE_BASE_URL: simulator.url }
  const start = () => startProgram(['start', '--config', config, '--wait'], env)
  const first = start()
  await first.printed(/this recorder owns the budget/)
  const second = start()
  await second.printed(/another recorder owns the budget/)
  await sleep(1_500)
  for (const { process, finished } of [second, first]) {
    process.kill('SIGKILL')
    await finished
  }
  await proxy.refuse()
  const daemon = start()
  await daemon.printed(/recording to disk until it is available/)
  const before = simulator.control.journal().length
  await sleep(4_000)
  expect(simulator.control.journal().length - before).toBe(0)
  await proxy.restore()
  await daemon.printed(/this recorder owns the budget/)
})
