import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openExchange } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { openSession } from '../../../src/history/session.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

let database: TestDatabase
let folder: string

beforeAll(async () => {
  database = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-session-'))
})
afterAll(async () => {
  await database?.drop()
  await rm(folder, { recursive: true, force: true })
})

test('a command that begins while the row of a living recorder has expired works beside it', async () => {
  const { pool, db } = database.database
  const renew = (until: string) =>
    pool.query(
      `insert into recorder.lease (egress, owner, epoch, until, place) values ('a', 'recorder', 1, ${until}, 'host')
       on conflict (egress) do update set until = excluded.until where lease.owner = 'recorder'`,
    )
  // As after a death of the server, which kept the recorder from renewing its row.
  await renew(`now() - interval '1 second'`)
  const ending = new AbortController()
  const logger = pino({ level: 'silent' })
  const config = loadConfig({ env: { EXCHANGE_BASE_URL: 'http://127.0.0.1:9' } })
  const opening = openSession({
    db,
    url: database.url,
    openClient: (right) => openExchange(right, config, logger),
    onResponse: () => Promise.resolve(),
    egress: 'a',
    folder,
    settleMs: 1,
    clock: systemClock,
    serviceNow: () => null,
    logger,
    signal: AbortSignal.any([ending.signal, AbortSignal.timeout(240_000)]),
  })
  const renewing = (async () => {
    // The command waits for the row by then, and would take it after 3.5 s.
    const waits = 'select from recorder.lease where waited_until > now()'
    while (!ending.signal.aborted && (await pool.query(waits)).rowCount === 0) await sleep(20)
    for (; !ending.signal.aborted; await sleep(300)) await renew(`now() + interval '3500 milliseconds'`)
  })()
  const session = await opening.finally(() => ending.abort())
  await renewing
  expect(session.isOwner()).toBe(false)
  await session.close()
  const { rows } = await pool.query('select owner from recorder.lease')
  expect(rows).toEqual([{ owner: 'recorder' }])
})
