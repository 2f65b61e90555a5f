import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { compareService, moveService, noteService, SameDatabase } from '../../../src/db/identity.js'
import { openDatabase } from '../../../src/db/database.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument, someTime } from '../../support/marketRows.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())

const real = 'https://api.exchange.test'
const another = 'http://other.exchange.test'

async function stored(): Promise<(string | null)[]> {
  const rows = await test.database.db.selectFrom('recorder.service').select('base_url').execute()
  return rows.map(({ base_url }) => base_url)
}

async function recordSomething(): Promise<void> {
  await recordInstruments(test.database.db, 'SPOT', [anInstrument()], someTime)
}

beforeEach(async () => {
  await sql`truncate recorder.service, market.instruments, market.instrument_history`.execute(test.database.db)
})

describe('a database that holds a service', () => {
  it('takes the same host again, whatever its scheme, and tells of another path: it may be another service', async () => {
    expect(await noteService(test.database.db, real)).toBeNull()
    await recordSomething()
    expect(await noteService(test.database.db, real)).toBeNull()
    expect(await noteService(test.database.db, 'http://API.exchange.test/')).toBeNull()
    expect(await noteService(test.database.db, `${real}/another`)).toMatchObject({ baseUrl: real })
    expect(await stored()).toEqual([real])
  })

  it('tells of another host whatever was recorded', async () => {
    const { db } = test.database
    await noteService(db, real)
    await sql`insert into market.rpi_symbols (category, symbol, valid_from) values ('SPOT', 'BTCUSDT', now())`.execute(
      db,
    )
    expect(await noteService(db, another)).toMatchObject({ baseUrl: real })
    await sql`truncate market.rpi_symbols`.execute(db)
  })

  it('tells of another host, and takes it only when it is accepted', async () => {
    await noteService(test.database.db, real)
    await recordSomething()
    expect(await noteService(test.database.db, another)).toMatchObject({ baseUrl: real, isLoopback: false })
    expect(await stored()).toEqual([real])
    await moveService(test.database.db, another)
    expect(await noteService(test.database.db, another)).toBeNull()
    expect(await stored()).toEqual([another])
  })

  it('takes any until one has responded, and of two that come at once only one', async () => {
    const { db } = test.database
    expect(await compareService(db, another)).toBeNull()
    expect(await compareService(db, real)).toBeNull()
    expect(await stored()).toEqual([null])
    const others = await Promise.all([noteService(db, real), noteService(db, another)])
    expect(others.filter((other) => other === null)).toHaveLength(1)
    expect(await stored()).toEqual([others[0] === null ? real : another])
  })

  it('is not mistaken for another one that gets its name', async () => {
    const other = await createTestDatabase()
    const lost: string[] = []
    const same = new SameDatabase(({ message }) => lost.push(message))
    const recorder = openDatabase({ url: other.url, same })
    try {
      await noteService(recorder.db, real)
      const { id } = await recorder.db.selectFrom('recorder.service').select('id').executeTakeFirstOrThrow()
      same.require(id)
      await recorder.pool.query('select')
      await sql`truncate recorder.service`.execute(other.database.db)
      await noteService(other.database.db, another)
      const held = await recorder.pool.connect()
      await expect(recorder.pool.query('select')).rejects.toThrow(/replaced by another one/)
      held.release()
      expect(lost).toHaveLength(1)
    } finally {
      await recorder.close()
      await other.drop()
    }
  })

  it.each(['http://127.0.0.1:2', 'http://localhost:3', 'http://[::1]:4'])(
    'takes simulators on any port: %s',
    async (url) => {
      await noteService(test.database.db, 'http://127.0.0.1:1')
      await recordSomething()
      expect(await noteService(test.database.db, url)).toBeNull()
      expect(await stored()).toEqual(['http://127.0.0.1:1'])
    },
  )

  it('tells of a simulator that is about to be mixed with it', async () => {
    await noteService(test.database.db, real)
    await recordSomething()
    expect(await noteService(test.database.db, 'http://127.0.0.1:2')).toMatchObject({ baseUrl: real, isLoopback: true })
    expect(await stored()).toEqual([real])
  })
})
