import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { serverAccount } from '../../../src/server/embedded/binaries.js'
import { startEmbeddedPostgres } from '../../../src/server/embedded/embedded.js'
import { readServerState } from '../../../src/server/embedded/process.js'

const isRoot = process.getuid?.() === 0
const program = fileURLToPath(new URL('../../support/embeddedOwner.mjs', import.meta.url))
const directories: string[] = []
const owners: ChildProcess[] = []

beforeAll(() => {
  const built = fileURLToPath(new URL('../../../dist/src/server/embedded/embedded.js', import.meta.url))
  if (!existsSync(built))
    throw new Error('these tests run the built program in processes of its own: run npm run build')
})
afterAll(async () => {
  if (made !== undefined) await rm(dirname(made), { recursive: true, force: true })
})

afterEach(async () => {
  for (const owner of owners.splice(0)) {
    owner.kill('SIGKILL')
    if (owner.exitCode === null && owner.signalCode === null) await once(owner, 'exit')
  }
  for (const directory of directories.splice(0)) {
    await gone(join(directory, 'pg'))
    await rm(directory, { recursive: true, force: true })
  }
})

/** A data directory that does not exist yet, below one that others cannot enter (as a checkout below /root). */
async function dataDirectory(): Promise<string> {
  const parent = await mkdtemp(join(tmpdir(), 'market-recorder-embedded-'))
  directories.push(parent)
  return join(parent, 'pg')
}

let made: string | undefined
/** One that an earlier start has created. Copied: to create it takes longer than most of these tests. */
async function createdDirectory(): Promise<string> {
  if (made === undefined) {
    const folder = await mkdtemp(join(tmpdir(), 'market-recorder-embedded-'))
    await (await startEmbeddedPostgres({ dataDir: join(folder, 'pg') })).stop()
    // Where its server was; each copy finds a place of its own.
    await rm(join(folder, 'pg', 'port'))
    made = join(folder, 'pg')
  }
  const dataDir = await dataDirectory()
  execFileSync('cp', ['-a', made, dataDir])
  return dataDir
}

async function own(
  dataDir: string,
  asUser?: { uid: number; gid: number },
): Promise<{ owner: ChildProcess; url: string }> {
  const owner = spawn(process.execPath, [program, dataDir], { stdio: 'pipe', cwd: '/', detached: true, ...asUser })
  owners.push(owner)
  const output = { out: '', err: '' }
  owner.stdout?.setEncoding('utf8').on('data', (text: string) => (output.out += text))
  owner.stderr?.setEncoding('utf8').on('data', (text: string) => (output.err += text))
  while (!output.out.includes('\n')) {
    if (owner.exitCode !== null) throw new Error(`it ended with ${owner.exitCode}: ${output.err}`)
    await sleep(20)
  }
  return { owner, url: output.out.trim() }
}

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query<Record<string, unknown>>(sql)
    return rows.map((row) => Object.values(row)[0])
  } finally {
    await client.end()
  }
}

/** Resolves when no server runs on the directory. */
const gone = (dataDir: string) =>
  expect.poll(() => readServerState(dataDir), { interval: 20, message: 'a server is left running' }).toBeUndefined()

/** Numbers of all processes that have the text in their command line; those that have ended do not count. */
function processesWith(text: string): number[] {
  const numbers = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return numbers.map(Number).filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(text)
    } catch {
      return false
    }
  })
}

function canRead(user: { uid: number; gid: number }): boolean {
  try {
    execFileSync('/bin/sh', ['-c', 'test -r "$1"', 'sh', program], { cwd: '/', ...user })
    return true
  } catch {
    return false
  }
}

describe('the embedded PostgreSQL', () => {
  it('keeps its data, password and port over a restart', async () => {
    const dataDir = await createdDirectory()
    // The server knows no certificates, whatever the environment asks of other servers.
    vi.stubEnv('PGSSLMODE', 'require')
    const first = await startEmbeddedPostgres({ dataDir })
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    await first.stop()
    expect(await readServerState(dataDir)).toBeUndefined()
    const second = await startEmbeddedPostgres({ dataDir })
    expect(await query(second.url, 'select answer from kept')).toEqual([42])
    expect(second.url).toBe(first.url)
    await second.stop()
    vi.unstubAllEnvs()
  })

  it('is durable, listens on 127.0.0.1 alone and wants its password, which nobody else can read', async () => {
    const dataDir = await dataDirectory()
    const server = await startEmbeddedPostgres({ dataDir })
    expect(await query(server.url, 'show listen_addresses')).toEqual(['127.0.0.1'])
    const [pid, , , , socketDirectory] = readFileSync(join(dataDir, 'cluster', 'postmaster.pid'), 'utf8').split('\n')
    expect(socketDirectory).toBe('')
    if (process.platform === 'linux') {
      const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ')
      expect(readFileSync(`/proc/${child}/oom_score_adj`, 'utf8')).toBe('500\n')
      expect(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8')).toBe(readFileSync('/proc/self/oom_score_adj', 'utf8'))
    }
    for (const setting of ['fsync', 'synchronous_commit', 'full_page_writes', 'data_checksums']) {
      expect(await query(server.url, `show ${setting}`)).toEqual(['on'])
    }
    const wrong = new URL(server.url)
    wrong.password = 'wrong'
    await expect(query(wrong.href, 'select 1')).rejects.toMatchObject({ code: '28P01' })
    expect(statSync(join(dataDir, 'password')).mode & 0o777).toBe(0o600)
    expect(statSync(dataDir).mode & 0o077).toBe(0)
    await server.stop()
  })

  it('leaves no process behind when its owner is killed, and recovers what was committed', async (context) => {
    if (process.platform !== 'linux') context.skip('processes are looked for in /proc')
    const dataDir = await createdDirectory()
    const { owner, url } = await own(dataDir)
    await query(url, 'create table kept as select 7 as answer')
    const state = await readServerState(dataDir)
    expect(state).toBeDefined()
    const port = `port=${new URL(url).port}`
    expect(processesWith(port).length).toBeGreaterThan(0)
    owner.kill('SIGKILL')
    await gone(dataDir)
    await expect.poll(() => processesWith(port)).toEqual([])
    const again = await startEmbeddedPostgres({ dataDir })
    expect(await query(again.url, 'select answer from kept')).toEqual([7])
    await again.stop()
  })

  it('is started again where it was when it dies, though a session of it computes on', async (context) => {
    if (process.platform !== 'linux') context.skip('sessions are looked for in /proc')
    const dataDir = await createdDirectory()
    const server = await startEmbeddedPostgres({ dataDir })
    const hours = 'select count(*) from generate_series(1, 100000) a, generate_series(1, 10000000) b where a * b < 0'
    const computing = expect(query(server.url, hours)).rejects.toThrow()
    const count = `select count(*)::int from pg_stat_activity where query like '%generate_series%' and wait_event is null`
    // One is the session that counts.
    await expect.poll(async () => query(server.url, count)).toEqual([2])
    process.kill((await readServerState(dataDir))?.pid ?? 0, 'SIGKILL')
    await expect.poll(async () => query(server.url, 'select 1').catch(() => null)).toEqual([1])
    await computing
    await server.stop()
  })

  it('says once that it is lost when it cannot be started again', async () => {
    const dataDir = await createdDirectory()
    const lost: Error[] = []
    const server = await startEmbeddedPostgres({ dataDir, onLost: (error) => lost.push(error) })
    writeFileSync(join(dataDir, 'cluster', 'postgresql.auto.conf'), 'no_such_setting = 1\n')
    process.kill((await readServerState(dataDir))?.pid ?? 0, 'SIGKILL')
    await expect
      .poll(() => lost.map(({ message }) => message))
      .toEqual([expect.stringMatching(/^the embedded PostgreSQL is not ready: .*; see .*server\.log$/)])
    await server.stop()
  })

  it('waits for a server that is still shutting down', async () => {
    const dataDir = await createdDirectory()
    const { owner } = await own(dataDir)
    owner.kill('SIGKILL')
    // Not a moment later: the old server has only just heard of it.
    const again = await startEmbeddedPostgres({ dataDir })
    await sleep(300)
    expect(await query(again.url, 'select 1')).toEqual([1])
    await again.stop()
  })

  it('is joined by a second process and ends with its last user', async () => {
    const dataDir = await createdDirectory()
    const { owner, url } = await own(dataDir)
    const joined = await startEmbeddedPostgres({ dataDir })
    expect(joined.url).toBe(url)
    owner.kill('SIGKILL')
    await once(owner, 'exit')
    await sleep(500)
    expect(await query(joined.url, 'select 1')).toEqual([1])
    await joined.stop()
    expect(await readServerState(dataDir)).toBeUndefined()
  })

  it('is not waited for beyond the time given when it is frozen', async () => {
    const dataDir = await createdDirectory()
    const first = await startEmbeddedPostgres({ dataDir })
    const frozen = (await readServerState(dataDir))?.pid ?? 0
    process.kill(frozen, 'SIGSTOP')
    try {
      const joining = startEmbeddedPostgres({ dataDir, joinWithinMs: 1_000 })
      await expect(joining).rejects.toThrow(
        /^the embedded PostgreSQL is not ready: no response after \d+ s: .*; see .*log$/,
      )
    } finally {
      process.kill(frozen, 'SIGCONT')
      await first.stop()
    }
  })

  it('does not end for others when one of its users stops', async () => {
    const dataDir = await createdDirectory()
    const first = await startEmbeddedPostgres({ dataDir })
    const { owner, url } = await own(dataDir)
    await first.stop()
    expect(await query(url, 'select 1')).toEqual([1])
    owner.stdin?.write('stop\n')
    expect((await once(owner, 'exit'))[0]).toBe(0)
    expect(await readServerState(dataDir)).toBeUndefined()
  })

  it('is started once when several processes begin at the same time', async () => {
    const dataDir = await dataDirectory()
    const all = await Promise.all([own(dataDir), own(dataDir), own(dataDir)])
    expect(new Set(all.map(({ url }) => url)).size).toBe(1)
    for (const { url } of all) expect(await query(url, 'select 1')).toEqual([1])
  })

  it('is joined by those who wanted to start it while another one did', async () => {
    const dataDir = await createdDirectory()
    const starts = Array.from({ length: 12 }, async (_, index) => {
      await sleep(25 * index)
      return startEmbeddedPostgres({ dataDir })
    })
    const started = await Promise.allSettled(starts)
    for (const one of started) if (one.status === 'fulfilled') await one.value.stop()
    expect(started.filter(({ status }) => status === 'rejected')).toEqual([])
  })

  it('starts over what a crash of the machine leaves: a lock file of a process that is somebody else now', async () => {
    const dataDir = await createdDirectory()
    const first = await startEmbeddedPostgres({ dataDir })
    await first.stop()
    // PostgreSQL itself looks no further than whether its own user has such a process.
    const other = spawn('sleep', ['600'], { stdio: 'ignore', cwd: '/', ...(await serverAccount()) })
    owners.push(other)
    const foreignDir = await createdDirectory()
    const foreign = await startEmbeddedPostgres({ dataDir: foreignDir })
    for (const pid of [other.pid, (await readServerState(foreignDir))?.pid]) {
      const lines = [pid, join(dataDir, 'cluster'), 1, new URL(first.url).port, '', '127.0.0.1', '0 0', 'stopping']
      writeFileSync(join(dataDir, 'cluster', 'postmaster.pid'), `${lines.join('\n')}\n`)
      const again = await startEmbeddedPostgres({ dataDir })
      expect(await query(again.url, 'select 1')).toEqual([1])
      await again.stop()
    }
    expect(await query(foreign.url, 'select 1')).toEqual([1])
    await foreign.stop()
  })

  it('takes another port when its own is taken, unless others have its address', async () => {
    const dataDir = await createdDirectory()
    const blocker = await startEmbeddedPostgres({ dataDir: await createdDirectory() })
    const { port } = new URL(blocker.url)
    writeFileSync(join(dataDir, 'port'), `${port}\n`)
    const first = await startEmbeddedPostgres({ dataDir })
    expect(new URL(first.url).port).not.toBe(port)
    await blocker.stop()

    process.kill((await readServerState(dataDir))?.pid ?? 0, 'SIGKILL')
    await gone(dataDir)
    const taken = createServer().listen(Number(new URL(first.url).port), '127.0.0.1')
    await once(taken, 'listening')
    const joining = startEmbeddedPostgres({ dataDir })
    await sleep(300)
    taken.close()
    const second = await joining
    expect(second.url).toBe(first.url)
    await second.stop()
    await first.stop()
  })

  it('refuses a directory of another major version and a lost password in one line', async () => {
    const dataDir = await createdDirectory()
    const marker = join(dataDir, 'cluster', 'PG_VERSION')
    const version = readFileSync(marker, 'utf8')
    writeFileSync(marker, '12\n')
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toThrow(
      /^.* holds a database of PostgreSQL 12, .* choose another data directory$/,
    )
    writeFileSync(marker, version)
    await rm(join(dataDir, 'password'))
    await expect(startEmbeddedPostgres({ dataDir })).rejects.toThrow(/^the password in .* restore that file$/)
    expect(await readServerState(dataDir)).toBeUndefined()
  })

  it('survives the Ctrl-C of its owner, so that the owner can stop in order', async () => {
    const dataDir = await createdDirectory()
    const { owner, url } = await own(dataDir)
    // To the whole process group, as a terminal does.
    process.kill(-(owner.pid ?? 0), 'SIGINT')
    await sleep(500)
    expect(await query(url, 'select 1')).toEqual([1])
    owner.stdin?.write('stop\n')
    await once(owner, 'exit')
    expect(await readServerState(dataDir)).toBeUndefined()
  })

  it('works as an ordinary user, and leaves nothing behind there either', async (context) => {
    if (!isRoot) context.skip('every test here runs as an ordinary user already')
    const nobody = { uid: 65_534, gid: 65_534 }
    if (!canRead(nobody)) context.skip('the checkout is closed to other users, so none of them can run it')
    const dataDir = await dataDirectory()
    await chown(dirname(dataDir), nobody.uid, nobody.gid)
    const { owner, url } = await own(dataDir, nobody)
    expect(await query(url, 'select 1')).toEqual([1])
    expect(statSync(join(dataDir, 'cluster')).uid).toBe(nobody.uid)
    owner.kill('SIGKILL')
    await gone(dataDir)
  })
})
