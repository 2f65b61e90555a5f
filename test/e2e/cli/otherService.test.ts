import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Spool } from '../../../src/collect/queue/spool.js'
import { noteService } from '../../../src/db/identity.js'
import type { Batch } from '../../../src/ledger/batch.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { systemDisk } from '../../../src/runtime/disk.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument, someTime } from '../../support/marketRows.js'
import { runProgram, startProgram } from '../../support/program.js'
import { fills } from '../../support/queueUnderTest.js'
import { storeSpooled } from '../../support/storeSpooled.js'
import { startTcpProxy } from '../../support/tcpProxy.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())

const real = 'https://api.exchange.test'

async function stored(): Promise<(string | null)[]> {
  const rows = await test.database.db.selectFrom('recorder.service').select('base_url').execute()
  return rows.map(({ base_url }) => base_url)
}

/** Leaves responses on the disk, as a recorder does that ends while the database is away. */
async function spoolIn(dataDir: string, batches: readonly Batch[]): Promise<void> {
  const nothing = () => undefined
  const reports = { serviceNow: () => null, onDamage: nothing, onDropped: nothing, onSetAside: nothing }
  const root = join(dataDir, 'spool', 'api.exchange.test~unknown~1-of-before-00000000')
  const spool = await Spool.open({ root, maxBytes: 1_000_000, clock: systemClock, disk: systemDisk, ...reports })
  for (const batch of batches) await spool.append(batch)
  await spool.close()
}

async function recordSomething(): Promise<void> {
  await recordInstruments(test.database.db, 'SPOT', [anInstrument()], someTime)
}

beforeEach(async () => {
  await sql`truncate recorder.service, market.instruments, market.instrument_history`.execute(test.database.db)
})

describe('a database that holds a service', () => {
  it('refuses a start with another service in one line, and no start with a simulator', async () => {
    await noteService(test.database.db, 'http://127.0.0.1:1')
    await recordSomething()
    const folder = await mkdtemp(join(tmpdir(), 'market-recorder-service-'))
    const env = { DATABASE_URL: test.url, EXCHANGE_BASE_URL: 'http://exchange.invalid', SERVE_PORT: '0' }
    try {
      const args = ['--data-dir', folder]
      for (const command of [
        ['start', '--wait', ...args],
        ['backfill', '--category', 'SPOT', '--symbol', '*', '--interval', '1m', '--from', 'launch', ...args],
      ]) {
        const { exitCode, stderr } = await runProgram(command, env)
        expect(exitCode, stderr).toBe(2)
        const errors = stderr.split('\n').filter((line) => line.startsWith('error: '))
        expect(errors).toHaveLength(1)
        expect(errors[0]).toMatch(/127\.0\.0\.1:1 .*http:\/\/exchange\.invalid; .*DATABASE_URL.*--accept-new-url/)
      }
      const dry = [
        'backfill',
        '--category',
        'SPOT',
        '--symbol',
        '*',
        '--interval',
        '1m',
        '--from',
        'launch',
        '--dry-run',
      ]
      expect(await runProgram([...dry, '--accept-new-url', ...args], env)).toMatchObject({ exitCode: 2 })
      expect(await stored()).toEqual(['http://127.0.0.1:1'])
      const simulated = { ...env, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
      const { exitCode, stderr } = await runProgram(['start', '--wait', '--for', '1', ...args], simulated)
      expect(exitCode, stderr).toBe(0)
      expect(await stored()).toEqual(['http://127.0.0.1:1'])
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it('that was away at the start with another service takes nothing from the disk, and ends that start in one line', async () => {
    await noteService(test.database.db, real)
    await recordSomething()
    const dataDir = await mkdtemp(join(tmpdir(), 'market-recorder-service-'))
    await spoolIn(dataDir, [fills(1), fills(2)])
    const link = await startTcpProxy(test.url)
    await link.refuse()
    const env = { DATABASE_URL: link.through(test.url), EXCHANGE_BASE_URL: 'http://exchange.invalid', SERVE_PORT: '0' }
    const recorder = startProgram(['start', '--wait', '--data-dir', dataDir], env)
    try {
      await recorder.printed(/recording to disk until it is available/)
      await link.restore()
      const { exitCode, stderr } = await recorder.finished
      expect(exitCode, stderr).toBe(2)
      expect(stderr.split('\n').filter((line) => line.startsWith('error: '))).toEqual([
        expect.stringMatching(/api\.exchange\.test .*http:\/\/exchange\.invalid; .*DATABASE_URL/),
      ])
      expect(await test.database.db.selectFrom('market.fills').select('exec_id').execute()).toEqual([])
      await storeSpooled(dataDir, test.database)
      expect(await test.database.db.selectFrom('market.fills').select('exec_id').execute()).not.toEqual([])
    } finally {
      recorder.process.kill('SIGKILL')
      await link.close()
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})
