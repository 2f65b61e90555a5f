import { readdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { compareTables } from '../chaos/compareTables.js'
import { untilSpooling } from '../chaos/spooling.js'
import { createEmptyDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, type Finished, startProgram } from '../support/program.js'
import { type Proxy, startProxy } from '../support/proxy.js'
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.js'
import { temporaryFolder } from '../support/temporaryFolder.js'

const root = temporaryFolder('foreign')
const settleMs = 5_000
/** Two services with names, which only the proxy knows. The instruments of the other one do not exist here. */
const [ours, other] = ['http://one.example.com', 'http://other.example.com']
let simulator: Simulator
let otherSimulator: Simulator
let proxy: Proxy
let tcp: TcpProxy | undefined
const databases: TestDatabase[] = []

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny', journal: true })
  otherSimulator = await startSimulator({ scale: 'tiny', seed: 7, journal: true })
  const targets = { 'one.example.com': simulator.url, 'other.example.com': otherSimulator.url }
  proxy = await startProxy('', targets)
})
afterEach(async () => {
  await endPrograms()
  await proxy.close()
  await simulator.close()
  await otherSimulator.close()
  await tcp?.close()
  tcp = undefined
  for (const database of databases.splice(0)) await database.drop()
})

async function newDatabase(): Promise<TestDatabase> {
  const database = await createEmptyDatabase()
  databases.push(database)
  return database
}

let count = 0
/** Starts a recorder of a service. Resolves when it collects, or has ended. */
async function start(baseUrl: string, dataDir: string, url?: string) {
  const config = join(root, `${++count}.json`)
  const settings = {
    database: { dataDir },
    exchange: { baseUrl, proxy: `http://127.0.0.1:${proxy.port}` },
    collector: { egress: 'one address', allowOverload: true },
    streams: { orderBooks: { everySeconds: 2 } },
    serve: { enabled: false },
  }
  await writeFile(config, JSON.stringify(settings))
  const program = startProgram(['start', '--config', config], url === undefined ? {} : { DATABASE_URL: url })
  const hasBegun = await program.printed(/"collecting /).then(
    () => true,
    () => false,
  )
  const stop = async (): Promise<Finished> => {
    program.process.kill('SIGTERM')
    return program.finished
  }
  return { hasBegun, stop, finished: program.finished }
}

/** Records for some seconds. */
async function record(baseUrl: string, dataDir: string, url?: string): Promise<Finished> {
  const recorder = await start(baseUrl, dataDir, url)
  expect(recorder.hasBegun, (await Promise.race([recorder.finished, sleep(0)]))?.stderr).toBe(true)
  await sleep(4_000)
  const finished = await recorder.stop()
  expect(finished.exitCode).toBe(0)
  return finished
}

/** Leaves responses of a service on the disk, because its database is away all the time. */
async function leaveResponses(baseUrl: string, dataDir: string): Promise<void> {
  const recorder = await start(baseUrl, dataDir, 'postgresql://nobody:none@127.0.0.1:9/none')
  await untilSpooling(join(dataDir, 'spool'), Date.now() + 120_000)
  await sleep(3_000)
  expect((await recorder.stop()).exitCode).toBe(0)
  expect(await segments(dataDir)).not.toEqual([])
}

/** Segments with responses of a service. */
async function segments(dataDir: string, service = other): Promise<readonly string[]> {
  const names = await readdir(join(dataDir, 'spool'), { recursive: true }).catch(() => [])
  const { host } = new URL(service)
  return names.filter((name) => name.startsWith(host) && name.endsWith('.seg')).toSorted()
}

/**
 * Records until all responses are in the database. A recorder that is stopped on a busy machine leaves its newest ones on
 * the disk, for its next start. Resolves to how the first one ended.
 */
async function recordAll(baseUrl: string, dataDir: string, url: string): Promise<Finished> {
  const first = await record(baseUrl, dataDir, url)
  while ((await segments(dataDir, baseUrl)).length > 0) await record(baseUrl, dataDir, url)
  return first
}
const linesAbout = ({ stdout, stderr }: Finished, pattern: RegExp) =>
  (stdout + stderr).split('\n').filter((line) => pattern.test(line))

/** Rows that this service never sent, and rows that it sent and that are not stored. */
async function wrongIn({ database }: TestDatabase, from: Simulator): Promise<readonly string[]> {
  const reports = await compareTables(database.pool, from.control.journal(), [], [], settleMs, Date.now())
  return reports.flatMap(({ wrong }) => wrong)
}

test('a mistyped address while the database is away puts nothing into it, neither then nor later', async () => {
  const database = await newDatabase()
  tcp = await startTcpProxy(database.url)
  const dataDir = join(root, `mistyped ${++count}`)
  await record(ours, dataDir, database.url)
  await tcp.refuse()
  const mistyped = await start(other, dataDir, tcp.through(database.url))
  expect(mistyped.hasBegun).toBe(true)
  await untilSpooling(join(dataDir, 'spool'), Date.now() + 120_000)
  await sleep(4_000)
  await tcp.restore()
  const ended = await mistyped.finished
  expect(ended.exitCode).toBe(2)
  expect(linesAbout(ended, /use another database .* or --accept-new-url/)).toHaveLength(1)
  const left = await segments(dataDir)
  expect(left).not.toEqual([])

  const corrected = await recordAll(ours, dataDir, tcp.through(database.url))
  expect(linesAbout(corrected, /responses in .*are of other\.example\.com; they are left there/)).toHaveLength(1)
  expect(await segments(dataDir), 'left on the disk').toEqual(left)
  expect(await wrongIn(database, simulator), 'wrong rows of ours').toEqual([])
  const { rows } = await database.database.pool.query('select * from recorder.candle_revision')
  expect(rows, 'revisions').toEqual([])

  // They are not lost: a recorder of that service stores them.
  const theirs = await newDatabase()
  await recordAll(other, dataDir, theirs.url)
  expect(await wrongIn(theirs, otherSimulator), 'wrong rows of theirs').toEqual([])
})

test('of nine data folders and databases of no, this and another service, nothing is mixed', async () => {
  const folders = {
    empty: async () => undefined,
    'with responses of another service': (dataDir: string) => leaveResponses(other, dataDir),
    'with the embedded database of another service': async (dataDir: string) => {
      await record(other, dataDir)
      await leaveResponses(other, dataDir)
    },
  }
  const inDatabases = {
    new: async () => undefined,
    'of this service': async (url: string) => void (await record(ours, join(root, `own ${++count}`), url)),
    'of another service': async (url: string) => void (await record(other, join(root, `other ${++count}`), url)),
  }
  const tryAll = async ([folder, fill]: [string, (dataDir: string) => Promise<unknown>]) => {
    const dataDir = join(root, `${folder} ${++count}`)
    await fill(dataDir)
    const left = await segments(dataDir)
    // On a busy machine the embedded database has not taken all, so its folder of the spool is named, too.
    const places = new Set(left.map((segment) => dirname(segment)))
    for (const [state, prepare] of Object.entries(inDatabases)) {
      const where = `${folder} / ${state}`
      const database = await newDatabase()
      await prepare(database.url)
      const isRefused = state === 'of another service'
      const recorder = await start(ours, dataDir, database.url)
      if (recorder.hasBegun) await sleep(3_000)
      const finished = await recorder.stop()
      expect({ where, exitCode: finished.exitCode, errors: linesAbout(finished, /^error: /) }).toEqual({
        where,
        exitCode: isRefused ? 2 : 0,
        errors: isRefused ? [expect.stringContaining('the database holds what http://other.example.com sent')] : [],
      })
      expect(recorder.hasBegun, where).toBe(!isRefused)
      const named = linesAbout(finished, /responses in .*are of other\.example\.com/)
      expect(named, where).toHaveLength(isRefused ? 0 : places.size)
      expect(await segments(dataDir), where).toEqual(left)
      const wrong = await wrongIn(database, isRefused ? otherSimulator : simulator)
      expect(
        wrong.filter((line) => line.endsWith('never served')),
        where,
      ).toEqual([])
    }
    return dataDir
  }
  let last = ''
  for (const one of Object.entries(folders)) last = await tryAll(one)
  // Without another one configured, the embedded database of the other service is refused, too.
  const embedded = await start(ours, last)
  const refused = await embedded.finished
  expect(refused.exitCode).toBe(2)
  expect(linesAbout(refused, /^error: the database holds what http:\/\/other\.example\.com sent/)).toHaveLength(1)
}, 1_800_000)
