import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { day, moment } from '../../../src/cli/options.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aCandle, anInstrument } from '../../support/marketRows.js'
import { runProgram } from '../../support/program.js'

let created: TestDatabase
let folder: string
beforeAll(async () => {
  created = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-selection-'))
})
afterAll(async () => {
  await created.drop()
  await rm(folder, { recursive: true, force: true })
})

const run = (...args: string[]) => runProgram(args, { DATABASE_URL: created.url })

describe('gaps', () => {
  const second = 1_795_600_000_000
  beforeAll(async () => {
    const { db } = created.database
    const fills = { stream: 'fills', type: '', interval: '', reason: 'missed' } as const
    await recordGap(db, { ...fills, category: 'SPOT', symbol: 'BTCUSDT', range: { from: second + 7, to: second + 19 } })
    await recordGap(db, { ...fills, category: 'SPOT', symbol: 'ETHUSDT', range: { from: second + 5, to: second + 6 } })
    const books = { ...fills, stream: 'order_books', category: 'USDT-FUTURES', symbol: '*' } as const
    await recordGap(db, { ...books, range: { from: second + 9, to: second + 11 } })
  })

  test('are shown newest first, to the millisecond', async () => {
    const { stdout } = await run('gaps')
    expect(stdout).toBe(
      [
        'order_books, open: missed (1)',
        '  USDT-FUTURES * 2026-11-25T09:46:40.009 to 2026-11-25T09:46:40.011',
        'fills, open: missed (2, 2 can be repaired)',
        '  SPOT BTCUSDT 2026-11-25T09:46:40.007 to 2026-11-25T09:46:40.019',
        '  SPOT ETHUSDT 2026-11-25T09:46:40.005 to 2026-11-25T09:46:40.006',
        '',
      ].join('\n'),
    )
  })

  test.for([
    [
      ['--stream', 'FILLS'],
      ['BTCUSDT', 'ETHUSDT'],
    ],
    [['--category', 'usdt-futures'], ['*']],
    [
      ['--symbol', 'eth*'],
      ['*', 'ETHUSDT'],
    ],
    [['--stream', 'fills', '--category', 'spot', '--symbol', 'btcusdt'], ['BTCUSDT']],
  ] as const)('of %s', async ([filter, symbols]) => {
    const { stdout } = await run('gaps', '--json', ...filter)
    expect((JSON.parse(stdout) as { symbol: string }[]).map(({ symbol }) => symbol)).toEqual(symbols)
  })

  test('of a symbol that nobody knows are an error', async () => {
    const { stderr, exitCode } = await run('gaps', '--symbol', 'BTCUSDT', 'ZZZ')
    expect(stderr).toBe('error: no symbol matches ZZZ: market.instruments lists them\n')
    expect(exitCode).toBe(1)
  })

  test('of one reason are counted, and the newest twenty shown', async () => {
    const series = { stream: 'fills', category: 'SPOT', symbol: 'MANYUSDT', type: '', interval: '' } as const
    for (let i = 0; i < 23; i++) {
      const range = { from: second + i * 10, to: second + i * 10 + 5 }
      await recordGap(created.database.db, { ...series, range, reason: 'many' })
    }
    const lines = (await run('gaps', '--symbol', 'many*', '--stream', 'fills')).stdout.trimEnd().split('\n')
    expect(lines).toHaveLength(22)
    expect(lines[0]).toBe('fills, open: many (23, 23 can be repaired)')
    expect(lines[1]).toContain(new Date(second + 220).toISOString().slice(0, 23))
    expect(lines[21]).toBe('  and 3 more; see market.gaps')
  })
})

describe('names and times', () => {
  test('of an export are taken in any case, and times without a zone in UTC', async () => {
    const candle = aCandle({})
    await recordInstruments(created.database.db, 'SPOT', [anInstrument()], candle.openTime)
    await upsertCandles(created.database.db, [candle])
    const before = new Date(candle.openTime).toISOString().slice(0, 16)
    const after = new Date(candle.openTime + 60_000).toISOString().slice(0, 16)
    const selection = ['--category', candle.category.toLowerCase(), '--symbol', candle.symbol.toLowerCase()]
    const { stdout, stderr } = await run(
      'export',
      'candles',
      '--out',
      folder,
      '--from',
      before,
      '--to',
      after,
      ...selection,
    )
    expect(stderr).toMatch(/^0 % of the time is recorded, 0 gaps: .*\n$/)
    expect(stdout).toMatch(/^1 row in 1 file in /)
  })

  test('that are unknown or missing are told at once', async () => {
    expect((await run('export', 'candles', '--category', 'sport')).stderr).toMatch(/'sport' is invalid.*SPOT, MARGIN/)
    expect((await run('export')).stderr).toBe(
      'error: what to export is missing. Give it first: npx market-recorder export fills --symbol BTCUSDT …\n' +
        'error: --out is missing: a folder of their own for the files\n',
    )
    expect((await run('archive', 'certify')).stderr).toBe('error: missing: --from, --to\n')
    expect((await run('backfill', '--category', 'spot')).stderr).toBe('error: missing: --symbol, --interval, --from\n')
  })

  test.for([
    ['2026-03-01', '2026-03-01T00:00:00.000Z'],
    ['2026-03-01T12:00', '2026-03-01T12:00:00.000Z'],
    ['2026-03-01 12:00:00.5', '2026-03-01T12:00:00.500Z'],
    ['2026-03-01 12:00:00+00', '2026-03-01T12:00:00.000Z'],
    ['2026-03-01T12:00+09:00', '2026-03-01T03:00:00.000Z'],
  ] as const)('a time is read as one: %s', ([text, expected]) => {
    expect(new Date(moment(text)).toISOString()).toBe(expected)
  })

  test.for([
    'yesterday',
    '2026',
    '2026-13-01',
    '2026-02-29',
    '2026-04-31T12:00',
    '2026-03-01T',
    '2026-03-01T12:00Zulu',
    '12:00',
  ])('is no time: %s', (text) => {
    expect(() => moment(text)).toThrow(/UTC unless it has a zone/)
  })

  test('a day is one of the calendar', () => {
    expect(day('2028-02-29')).toBe('2028-02-29')
    expect(() => day('2026-02-29')).toThrow('Write a day in UTC')
  })
})
