import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type TestContext, afterAll, beforeAll, expect, test } from 'vitest'
import { lockNames, withSessionLock } from '../../src/db/locks.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { type TestDatabase, createTestDatabase } from '../support/database.js'
import { type Running, startProgram } from '../support/program.js'
import { startTcpProxy } from '../support/tcpProxy.js'

/** Of the whole end: what is received has so long, and closing ten seconds more. A busy machine takes longer to get that far. */
const drainTimeoutMs = 10_000
const endsWithinMs = drainTimeoutMs + 10_000 + 12_000
let simulator: Simulator
let database: TestDatabase
let folder: string

beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-end-'))
})
afterAll(async () => {
  await simulator.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

async function start(name: string, url: string, { onTestFinished }: Pick<TestContext, 'onTestFinished'>) {
  const config = join(folder, `${name}.json`)
  const dataDir = join(folder, name)
  const settings = {
    database: { dataDir },
    collector: { egress: name, allowOverload: true },
    streams: { orderBooks: { everySeconds: 1 } },
    serve: { port: 0 },
  }
  await writeFile(config, JSON.stringify(settings))
  const daemon = startProgram(['start', '--config', config], { DATABASE_URL: url, EXCHANGE_BASE_URL: simulator.url })
  onTestFinished(async () => {
    daemon.process.kill('SIGKILL')
    await daemon.finished
  })
  return { ...daemon, dataDir }
}

async function terminate({ process, finished }: Running) {
  const startedMs = performance.now()
  process.kill('SIGTERM')
  const end = await Promise.race([finished, sleep(endsWithinMs, 'it has not ended' as const)])
  expect(end).not.toBe('it has not ended')
  return { ...(end as Awaited<typeof finished>), tookMs: performance.now() - startedMs }
}

const segments = async (dataDir: string) =>
  (await readdir(join(dataDir, 'spool'), { recursive: true })).filter((name) => name.endsWith('.seg'))

test('a recorder ends in time while the database is silent, with what it has received on the disk', async (context) => {
  const proxy = await startTcpProxy(database.url)
  context.onTestFinished(() => proxy.close())
  const daemon = await start('silent', proxy.through(database.url), context)
  await daemon.printed(/collecting instruments/)
  await sleep(1_000)
  proxy.stall()
  await sleep(4_000)
  const { exitCode, stderr, tookMs } = await terminate(daemon)
  expect(exitCode, stderr).toBe(0)
  expect(await segments(daemon.dataDir)).not.toEqual([])
  console.log(`ended ${Math.round(tookMs)} ms after SIGTERM`)
})

test('a start that waits for a silent database ends in time', async (context) => {
  const proxy = await startTcpProxy(database.url)
  context.onTestFinished(() => proxy.close())
  const cut = await start('starting', proxy.through(database.url), context)
  // In the middle of the start, whatever it does then.
  await sleep(800)
  proxy.stall()
  await sleep(2_000)
  await terminate(cut)
})

test('a recorder ends in time while the service is silent', async (context) => {
  const daemon = await start('service', database.url, context)
  await daemon.printed(/collecting instruments/)
  simulator.control.addFault({ kind: 'noResponse' })
  context.onTestFinished(() => simulator.control.clearFaults())
  await sleep(2_000)
  await terminate(daemon)
})

test('a recorder records while another process is at work on the features of the database', async (context) => {
  await withSessionLock(database.database.db, lockNames.reconcile, async () => {
    const daemon = await start('configuring', database.url, context)
    await Promise.race([daemon.printed(/collecting instruments/), sleep(60_000)])
    await terminate(daemon)
    expect((await daemon.finished).stderr).toMatch(/collecting instruments/)
  })
})
