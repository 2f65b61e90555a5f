import { readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { insertFills } from '../support/insertFills.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { aFill } from '../support/marketRows.js'
import { endPrograms, startProgram } from '../support/program.js'
import { temporaryFolder } from '../support/temporaryFolder.js'

const dayMs = 86_400_000
const times = { timeout: 150_000, interval: 250 }

let simulator: Simulator
let database: TestDatabase
beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createTestDatabase()
  const old = [20, 10, 1].map((days) => aFill({ symbol: 'OLDUSDT', ts: Date.now() - days * dayMs, execId: `${days}` }))
  await insertFills(database.database.db, old)
})
afterEach(endPrograms)
afterAll(async () => {
  await simulator?.close()
  await database?.drop()
})

const folder = temporaryFolder('archiving')

async function daemon(archiveFolder: string) {
  const config = join(folder, 'recorder.yaml')
  await writeFile(
    config,
    `archive: { folder: '${archiveFolder}', tables: [fills] }
storage: { fills: { retentionDays: 5 } }
serve: { port: 0 }
database: { dataDir: '${join(folder, 'data')}' }
`,
  )
  const running = startProgram(['start', '--allow-overload', '--config', config], {
    DATABASE_URL: database.url,
    EXCHANGE_BASE_URL: simulator.url,
  })
  const [, page = ''] = await running.printed(/the page is at (http:\/\/[\d.:]+)/)
  const failing = async () =>
    /^market_recorder_archive_failing (\d)$/m.exec(await (await fetch(`${page}/metrics`)).text())?.[1]
  const stop = async () => {
    running.process.kill('SIGTERM')
    expect((await running.finished).exitCode).toBe(0)
  }
  // The daemon works by what it has read at its start.
  await rm(config)
  return { failing, stop }
}

const kept = async () => {
  const { rows } = await database.database.pool.query<{ exec_id: string }>(
    `select exec_id from market.fills where symbol = 'OLDUSDT' order by ts`,
  )
  return rows.map(({ exec_id: id }) => id)
}

test('a daemon says that its archive fails, and removes nothing then', async () => {
  const blocked = join(folder, 'file')
  await writeFile(blocked, '')
  const { failing, stop } = await daemon(join(blocked, 'archive'))
  await expect.poll(failing, times).toBe('1')
  expect(await kept()).toEqual(['20', '10', '1'])
  await stop()
})

test('a daemon archives what has settled, and then removes what is past its age', async () => {
  const { failing, stop } = await daemon(join(folder, 'archive'))
  await expect.poll(kept, times).toEqual(['1'])
  expect((await readdir(join(folder, 'archive/market/fills/data'))).length).toBeGreaterThanOrEqual(2)
  expect(await failing()).toBe('0')
  await stop()
})
