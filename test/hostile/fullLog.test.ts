import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { closeSync, constants, createReadStream, existsSync, openSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { readAddress } from '../../src/serve/source.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createEmptyDatabase, type TestDatabase } from '../support/database.js'

const built = (path: string) => fileURLToPath(new URL(`../../dist/${path}`, import.meta.url))

let folder: string
let child: ChildProcess | undefined
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-log-'))
})
afterEach(async () => {
  child?.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

/** A program whose log goes to a file descriptor. */
function run(args: readonly string[], log: number, env: Readonly<Record<string, string>> = {}): ChildProcess {
  const { PATH = '', HOME = '' } = process.env
  child = spawn(process.execPath, args, { cwd: folder, env: { PATH, HOME, ...env }, stdio: ['ignore', 'ignore', log] })
  return child
}

const ended = (running: ChildProcess) => new Promise<number | null>((resolve) => running.once('close', resolve))

/** A pipe that is open for reading, so that who writes to it waits for a reader that never comes. */
function makePipe(): { readonly path: string; readonly fd: number } {
  const path = join(folder, 'log')
  spawnSync('mkfifo', [path])
  return { path, fd: openSync(path, constants.O_RDWR) }
}

test.each(['a full disk', 'a pipe that nobody reads'])(
  'a recorder whose log goes to %s records, responds and ends when told to',
  async (place) => {
    const log = place === 'a full disk' ? openSync('/dev/full', 'w') : makePipe().fd
    const simulator: Simulator = await startSimulator({ scale: 'tiny' })
    const database: TestDatabase = await createEmptyDatabase()
    try {
      const settings = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url, LOG_LEVEL: 'trace' }
      const args = [built('program/main.js'), 'start', '--allow-overload', '--data-dir', folder]
      const recorder = run(args, log, { ...settings, SERVE_PORT: '0' })
      const rows = async () => {
        const { rows: found } = await database.database.pool.query<{ n: number }>(
          'select count(*)::int as n from market.tickers',
        )
        return found[0]?.n ?? 0
      }
      await vi.waitFor(async () => expect(await rows()).toBeGreaterThan(0), { timeout: 120_000, interval: 500 })
      const before = await rows()
      await vi.waitFor(async () => expect(await rows()).toBeGreaterThan(before), { timeout: 120_000, interval: 500 })
      const url = (await readAddress(folder))?.url ?? null
      expect((await fetch(`${url}/healthz`)).status).toBe(200)
      const metrics = await (await fetch(`${url}/metrics`)).text()
      const [, lost] = /^market_recorder_log_lines_lost_total (\d+)$/m.exec(metrics) ?? []
      if (place === 'a full disk') expect(Number(lost)).toBeGreaterThan(0)
      const end = ended(recorder)
      recorder.kill('SIGTERM')
      expect(await end).toBe(0)
    } finally {
      closeSync(log)
      child?.kill('SIGKILL')
      await simulator.close()
      await database.drop()
    }
  },
)

test('lines that nobody took are counted, and told when there is a reader again', async () => {
  const { path, fd } = makePipe()
  const script = `
    import { writeFileSync } from 'node:fs'
    import { createLogger, lostLogLines } from '${built('src/runtime/logger.js')}'
    const logger = createLogger('info')
    for (let i = 0; i < 200; i += 1) {
      for (let j = 0; j < 100; j += 1) logger.info({ i, j }, 'x'.repeat(200))
      await new Promise((resolve) => setImmediate(resolve))
    }
    const lost = lostLogLines(logger)
    writeFileSync('written', '')
    while (process.stderr.writableLength > 0) await new Promise((resolve) => setTimeout(resolve, 20))
    logger.info({ lost }, 'the last one')`
  const writer = run(['--input-type=module', '--eval', script], fd)
  const end = ended(writer)
  await vi.waitFor(() => expect(existsSync(join(folder, 'written'))).toBe(true), { timeout: 120_000 })
  const lines = text(createReadStream(path))
  closeSync(fd)
  expect(await end).toBe(0)
  const entries = (await lines)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { msg: string; lost?: number })
  const lost = entries.at(-1)?.lost ?? 0
  expect(lost).toBeGreaterThan(1_000)
  expect(entries.filter(({ msg }) => msg.startsWith('x'))).toHaveLength(20_000 - lost)
  const told = entries.flatMap(
    ({ msg }) => /^(\d+) lines of this log could not be written: nothing reads it/.exec(msg) ?? [],
  )
  expect(told[1]).toBe(String(lost))
})
