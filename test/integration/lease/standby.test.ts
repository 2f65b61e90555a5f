import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { openDatabase, type RecorderDatabase } from '../../../src/db/database.js'
import { migrateToLatest } from '../../../src/db/migrate.js'
import { type Account, findBinaries, serverAccount } from '../../../src/server/embedded/binaries.js'
import { serverEnvironment } from '../../../src/server/embedded/keeper.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { ping } from '../../../src/ledger/read/overview.js'
import { lastingPort } from '../../../src/server/embedded/server.js'
import { runProgram } from '../../support/program.js'

const run = promisify(execFile)
const patience = { timeout: 120_000, interval: 100 }
let folder: string
let account: Account
let postgres: string
let primary: RecorderDatabase
let standby: RecorderDatabase
const urls = { primary: '', standby: '' }
const servers: ChildProcess[] = []

function startServer(directory: string, port: number, settings: readonly string[] = []): ChildProcess {
  const common = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off', ...settings]
  const args = ['-D', directory, '-p', String(port), ...common.flatMap((setting) => ['-c', setting])]
  const server = spawn(postgres, args, { cwd: '/', env: serverEnvironment(), stdio: 'ignore', ...account })
  servers.push(server)
  return server
}

async function stopServer(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = once(server, 'exit')
  server.kill('SIGINT')
  await ended
}

const responds = (database: RecorderDatabase) =>
  vi.waitFor(() => database.pool.query<Record<string, unknown>>('select 1'), patience)

/** A server and its hot standby, which is a copy of it from before it went on. */
beforeAll(async () => {
  account = await serverAccount()
  const binaries = await findBinaries(account)
  postgres = binaries.postgres
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-standby-'))
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  const [first, second] = [join(folder, 'primary'), join(folder, 'standby')]
  const options = { cwd: '/', env: serverEnvironment(), ...account }
  await run(
    binaries.initdb,
    ['-D', first, '-U', 'postgres', '-E', 'UTF8', '--locale', 'C', '--auth', 'trust', '--no-instructions'],
    options,
  )
  const [primaryPort, standbyPort] = [await lastingPort(), await lastingPort()]
  urls.primary = `postgresql://postgres@127.0.0.1:${primaryPort}/postgres`
  urls.standby = `postgresql://postgres@127.0.0.1:${standbyPort}/postgres`
  primary = openDatabase({ url: urls.primary, poolSize: 2 })
  standby = openDatabase({ url: urls.standby, poolSize: 2, isReadOnly: true })
  const before = startServer(first, primaryPort)
  await responds(primary)
  await migrateToLatest(primary)
  await stopServer(before)
  await run('cp', ['-a', first, second], options)
  await writeFile(join(second, 'standby.signal'), '')
  if (account !== undefined) await chown(join(second, 'standby.signal'), account.uid, account.gid)
  startServer(first, primaryPort)
  startServer(second, standbyPort, [`primary_conninfo=host=127.0.0.1 port=${primaryPort} user=postgres`])
  await responds(primary)
  await responds(standby)
})
afterAll(async () => {
  await primary.close()
  await standby.close()
  await Promise.all(servers.map(stopServer))
  await rm(folder, { recursive: true, force: true })
})

const gapAt = (from: number) =>
  recordGap(primary.db, {
    stream: 'fills',
    category: 'SPOT',
    symbol: 'BTCUSDT',
    type: '',
    interval: '',
    range: { from, to: from + 1000 },
    reason: 'a test',
  })
const gapsSeen = async () =>
  (await standby.pool.query<{ count: number }>('select count(*)::int as count from market.gaps')).rows[0]?.count

test('a hot standby is read by who has database.readUrl, and says how far it is behind', async () => {
  expect(await ping(primary.db)).toBeNull()
  await gapAt(1_000_000)
  await vi.waitFor(async () => expect(await gapsSeen()).toBe(1), patience)
  await vi.waitFor(async () => expect(await ping(standby.db)).toBe(0), patience)

  const env = { DATABASE_URL: urls.primary, DATABASE_READ_URL: urls.standby }
  const query = await runProgram(
    ['query', '--json', 'select pg_is_in_recovery() as standby, count(*) from market.gaps'],
    env,
  )
  expect({ ...query, stderr: '' }).toMatchObject({ exitCode: 0 })
  expect(query.stdout).toMatch(/"standby":\s*true/)

  await standby.pool.query('select pg_wal_replay_pause()')
  await gapAt(2_000_000)
  await vi.waitFor(async () => expect(await ping(standby.db)).toBeGreaterThan(0), patience)
  expect(await gapsSeen()).toBe(1)
  await standby.pool.query('select pg_wal_replay_resume()')
  await vi.waitFor(async () => expect(await gapsSeen()).toBe(2), patience)
  await vi.waitFor(async () => expect(await ping(standby.db)).toBe(0), patience)
})
