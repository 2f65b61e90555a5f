import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, type Running, startProgram } from '../support/program.js'
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.js'

let simulator: Simulator
let database: TestDatabase
let proxy: TcpProxy
let folder: string

beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny', journal: true })
  database = await createTestDatabase()
  proxy = await startTcpProxy(database.url)
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-takeover-'))
})
afterEach(async () => {
  await endPrograms()
  await proxy.close()
  await simulator.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

/** A daemon whose requests are told from those of others by the depth of the books that it asks for. */
async function startDaemon(depth: number, url: string): Promise<Running> {
  const config = join(folder, `${depth}.json`)
  const settings = {
    database: { dataDir: join(folder, String(depth)) },
    collector: { egress: 'one address', allowOverload: true },
    streams: { orderBooks: { everySeconds: 1, depth, select: { busiest: 'all' } }, rpiOrderBooks: { enabled: false } },
    serve: { enabled: false },
  }
  await writeFile(config, JSON.stringify(settings))
  return startProgram(['start', '--config', config], { DATABASE_URL: url, EXCHANGE_BASE_URL: simulator.url })
}

const requestsOf = (depth: number) =>
  simulator.control
    .journal()
    .filter(({ operation, parameters }) => operation === 'orderbook' && parameters['limit'] === String(depth))
    .map(({ atMs }) => atMs)
const begins = (depth: number, after = 0) =>
  vi.waitFor(() => expect(requestsOf(depth).some((atMs) => atMs > after)).toBe(true), {
    timeout: patienceMs,
    interval: 50,
  })

/** Seconds are promised, and measured by `bench -- fleet`; a machine with much else to do takes longer. */
const patienceMs = 120_000

test('a second daemon takes over when the first dies, and when it is cut off; never do both send', async () => {
  const first = await startDaemon(11, database.url)
  await begins(11)
  const second = await startDaemon(12, proxy.through(database.url))
  await second.printed(/another recorder owns the budget/)
  await new Promise((resolve) => setTimeout(resolve, 1_000))
  expect(requestsOf(12)).toEqual([])

  const killedAt = Date.now()
  first.process.kill('SIGKILL')
  await begins(12)

  const stopped = await startDaemon(14, database.url)
  await stopped.printed(/another recorder owns the budget/)
  stopped.process.kill('SIGTERM')
  const { exitCode, stdout, stderr } = await stopped.finished
  expect({ exitCode, hasError: (stdout + stderr).includes('error') }, stdout + stderr).toEqual({
    exitCode: 0,
    hasError: false,
  })

  const third = await startDaemon(13, database.url)
  await third.printed(/another recorder owns the budget/)
  await new Promise((resolve) => setTimeout(resolve, 1_500))
  const cutAt = Date.now()
  proxy.stall()
  // When a session's peer is silent for so long, the server ends it: it was told so by the session itself.
  setTimeout(() => proxy.cutOnServerSide(), 4_000)
  await begins(13)
  const takenOverAt = requestsOf(13)[0] ?? Infinity
  expect(Math.max(...requestsOf(12))).toBeLessThan(takenOverAt)

  // What the second had in hand when it was cut off is in its spool, and comes when it is back.
  await proxy.restore()
  third.process.kill('SIGTERM')
  await begins(12, takenOverAt)
  console.log(
    `taken over after a death: ${(requestsOf(12)[0] ?? 0) - killedAt} ms, after a cut: ${takenOverAt - cutAt} ms; ` +
      `the one that was cut off sent its last request ${Math.max(...requestsOf(12).filter((atMs) => atMs < takenOverAt)) - cutAt} ms after the cut`,
  )
})
