import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startEmbeddedPostgres } from '../../../src/server/embedded/embedded.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { leaveNothing, startProgram } from '../../support/program.js'

let folder: string
let simulator: Simulator
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-way-in-'))
  simulator = await startSimulator({ scale: 'tiny' })
})
afterAll(async () => {
  await leaveNothing()
  await simulator.close()
  await rm(folder, { recursive: true, force: true })
})

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => undefined)
  await client.connect()
  return client
}

it('a reader who waits for the lock of the database keeps nobody out for long', async () => {
  const settings = ['--data-dir', folder, '--allow-overload']
  const recorder = startProgram(['start', ...settings], { EXCHANGE_BASE_URL: simulator.url, SERVE_PORT: '0' })
  await recorder.printed(/the page is at/)
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres') })
  // From here on the recorder alone watches over its server.
  await server.stop()
  const holder = await connected(server.readUrl)
  const reader = await connected(server.readUrl)
  try {
    await holder.query(`begin; select pg_get_object_address('database', '{recorder}', '{}')`)
    const refused = reader.query('alter database recorder rename to other').catch((error: unknown) => error)
    // Which of both comes first depends on whether the recorder connects meanwhile.
    await recorder.printed(
      /session \d+ of reader in recorder waits for a lock that its login may not take and was ended|was ended: session \d+ of reader/,
    )
    expect(await refused).toBeInstanceOf(Error)
    const client = await connected(server.pageDatabaseUrl)
    await client.end()
  } finally {
    await Promise.all([holder.end(), reader.end().catch(() => undefined)])
    recorder.process.kill('SIGTERM')
    await recorder.finished
  }
})
