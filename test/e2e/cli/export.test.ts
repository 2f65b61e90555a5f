import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { noteService } from '../../../src/db/identity.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { insertFills } from '../../support/insertFills.js'
import { aFill, anInstrument } from '../../support/marketRows.js'
import { runProgram } from '../../support/program.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 1)

let created: TestDatabase
let folder: string
beforeAll(async () => {
  created = await createTestDatabase()
  const { db } = created.database
  await noteService(db, 'https://api.example.com')
  await recordInstruments(db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT' }), anInstrument({ symbol: 'ETHUSDT' })], from)
  const fillsOf = (symbol: string, day: number) =>
    Array.from({ length: 50 }, (_, i) => aFill({ symbol, ts: from + day * dayMs + i * 1_000_000, execId: `${i}` }))
  const days = [0, 1, 2]
  await insertFills(
    db,
    days.flatMap((day) => ['BTCUSDT', 'ETHUSDT', 'A/B'].flatMap((symbol) => fillsOf(symbol, day))),
  )
})
afterAll(async () => created.drop())

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-export-'))
  return async () => rm(folder, { recursive: true, force: true })
})

describe('the command', () => {
  const run = (...args: string[]) => runProgram(['export', '--out', folder, ...args], { DATABASE_URL: created.url })

  test('exports, and again exports nothing', async () => {
    const args = ['fills', '--from', '2026-03-01', '--to', '2026-03-03T00:00Z', '--symbol', 'BTC*', 'ETHUSDT']
    const first = await run(...args)
    const stderr = '0 % of the time is recorded, 0 gaps: see market.coverage and market.gaps\n'
    expect(first).toMatchObject({ exitCode: 0, stdout: `200 rows in 4 files in ${folder}\n`, stderr })
    const second = await run(...args, '--json')
    expect(JSON.parse(second.stdout)).toMatchObject({ rows: 0, partsSkipped: 2 })
  })

  test.each([
    [['fills'], /--from is missing/],
    [['fills', '--from', 'yesterday'], /Give a time such as/],
    [['fills', '--from', '2026-03-02', '--to', '2026-03-01'], /--from must be before --to/],
    [['fills', '--from', '2026-03-01', '--symbol', 'NOPE*'], /no symbol matches NOPE\*/],
    [['instruments', '--from', '2026-03-01'], /has no category, symbol and time/],
  ])('says what is wrong with %j', async (args, message) => {
    const { exitCode, stderr } = await run(...args)
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(message)
  })

  test.each([
    [['nonsense'], /"?market\.nonsense"?/],
    [['delete from market.fills returning *'], /syntax error/],
    [['fills', '--symbol', 'NOSUCH'], /no rows match --symbol NOSUCH there/],
    [['fills', '--out', '/proc/x/y'], /no folder can be made at \/proc\/x \(ENOENT\)/],
  ])('ends with one line and 1 after %j', async (args, message) => {
    const { exitCode, stderr } = await run('--from', '2026-03-01', '--to', '2026-03-04', ...args)
    expect([exitCode, stderr.trimEnd().split('\n')]).toEqual([1, [expect.stringMatching(message)]])
    expect(await created.database.db.selectFrom('market.fills').select('ts').execute()).toHaveLength(450)
  })
})
