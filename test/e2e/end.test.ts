import { spawnSync } from 'node:child_process'
import dgram from 'node:dgram'
import { once } from 'node:events'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type TestContext, afterAll, beforeAll, expect, test } from 'vitest'
import { lockNames, withSessionLock } from '../../src/db/locks.js'
import { sum } from '../../src/market/values.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { type TestDatabase, createTestDatabase } from '../support/database.js'
import { entryPoint, type Running, startProgram } from '../support/program.js'
import { untilSomebodyWaits } from '../support/lockWait.js'
import { startTcpProxy } from '../support/tcpProxy.js'

/**
 * An end takes up to 20 s: what is received has ten, and closing ten more. A busy machine takes longer to get that far. What would
 * wait for a silent database or resolver waits for minutes.
 */
const endsWithinMs = 90_000
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

/** A command that starts another one in a file system of its own, where only a name server is asked that never responds. */
const silentResolver = '127.0.0.153'
const withSilentResolver = [
  'unshare',
  '--user',
  '--map-root-user',
  '--mount',
  'sh',
  '-c',
  `printf 'nameserver ${silentResolver}\\noptions timeout:30 attempts:5\\n' > "$0" && mount --bind "$0" /etc/resolv.conf && exec "$@"`,
  join(tmpdir(), `market-recorder-resolv-${process.pid}.conf`),
]
const [inSilence = '', ...asIn] = withSilentResolver
const resolver = dgram.createSocket('udp4').unref()
const isSilent =
  spawnSync(inSilence, [...asIn, 'true']).status === 0 &&
  (await Promise.race([
    once(resolver.bind(53, silentResolver), 'listening').then(() => true),
    once(resolver, 'error').then(() => false),
  ]))
const hint = isSilent ? '' : ' (SKIPPED: no name server of its own can be had here)'
afterAll(async () => {
  await rm(asIn.at(-1) ?? '', { force: true })
  resolver.close()
})

interface Surroundings {
  readonly serviceUrl?: string
  readonly archive?: object
  readonly within?: readonly string[]
}

async function start(
  name: string,
  url: string,
  { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
  { serviceUrl = simulator.url, archive = {}, within = [] }: Surroundings = {},
) {
  const config = join(folder, `${name}.json`)
  const dataDir = join(folder, name)
  const settings = {
    database: { dataDir },
    collector: { egress: name, allowOverload: true },
    streams: { orderBooks: { everySeconds: 1 } },
    serve: { port: 0 },
    archive,
  }
  await writeFile(config, JSON.stringify(settings))
  const env = { DATABASE_URL: url, EXCHANGE_BASE_URL: serviceUrl }
  const daemon = startProgram(['start', '--config', config], env, entryPoint, within)
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
  const served = () =>
    sum(Object.values(simulator.control.report()).map(({ operations }) => operations.orderbook.requests))
  const before = served()
  await expect.poll(served).toBeGreaterThan(before + 10)
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

test.skipIf(!isSilent)(
  `a recorder ends in time while the resolver is silent about the service${hint}`,
  async (context) => {
    // A database of another service would be refused.
    const own = await createTestDatabase()
    context.onTestFinished(() => own.drop())
    const surroundings = { serviceUrl: 'http://service.silent.test', within: withSilentResolver }
    const daemon = await start('unresolved', own.url, context, surroundings)
    await daemon.printed(/the page is at/)
    await sleep(3_000)
    const { stderr, tookMs } = await terminate(daemon)
    expect(stderr).not.toMatch(/^\s+at /m)
    console.log(`ended ${Math.round(tookMs)} ms after SIGTERM`)
  },
)

test.skipIf(!isSilent)(
  `a start ends in time while the resolver is silent about the database${hint}`,
  async (context) => {
    const url = 'postgresql://recorder@database.silent.test/recorder'
    const daemon = await start('unresolvable', url, context, { within: withSilentResolver })
    await sleep(3_000)
    const { tookMs } = await terminate(daemon)
    console.log(`ended ${Math.round(tookMs)} ms after SIGTERM`)
  },
)

test.skipIf(!isSilent)(`a command ends by itself while the resolver is silent about the database${hint}`, async () => {
  const env = { DATABASE_URL: 'postgresql://recorder@database.silent.test/recorder' }
  const startedMs = performance.now()
  const { finished } = startProgram(['query', 'select 1'], env, entryPoint, withSilentResolver)
  const { stderr } = await finished
  expect(stderr).toMatch(/^error: [^\n]*\n$/)
  console.log(`ended after ${Math.round(performance.now() - startedMs)} ms`)
})

test('a recorder records while another process is at work on the features of the database', async (context) => {
  await withSessionLock(database.database.db, lockNames.reconcile, async () => {
    const daemon = await start('configuring', database.url, context)
    await Promise.race([daemon.printed(/collecting instruments/), sleep(240_000)])
    await terminate(daemon)
    expect((await daemon.finished).stderr).toMatch(/collecting instruments/)
  })
})

test('a recorder ends in order while its archiver waits for the database', async (context) => {
  const blocking = await database.database.pool.connect()
  await blocking.query('begin; lock table recorder.archived_day in access exclusive mode')
  context.onTestFinished(() => blocking.release(true))
  const archive = { folder: join(folder, 'archive'), tables: ['fills'] }
  const daemon = await start('archiving', database.url, context, { archive })
  await daemon.printed(/collecting instruments/)
  await untilSomebodyWaits(database.database.db)
  const { exitCode, stderr } = await terminate(daemon)
  expect(exitCode, stderr).toBe(0)
})
