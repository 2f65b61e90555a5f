import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { recordGap } from '../../../../src/ledger/gaps.js'
import { upsertCandles } from '../../../../src/ledger/storeCandles.js'
import { runExport } from '../../../../src/files/export/run.js'
import { describeSource } from '../../../../src/files/export/request.js'
import { noteService } from '../../../../src/db/identity.js'
import { insertFills } from '../../../support/insertFills.js'
import { recordInstruments } from '../../../../src/ledger/instruments.js'
import { appendRows } from '../../../../src/db/writeRows.js'
import { type TestDatabase, createTestDatabase } from '../../../support/database.js'
import { aBook, aCandle, aFill, aTicker, anInstrument } from '../../../support/marketRows.js'
import { addCoverage } from '../../../support/coverage.js'

const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 1)
const to = from + 3 * dayMs
const price = '12345.123456789012345678'
const quantity = '1234567890123.123456789012'
let created: TestDatabase
let folder: string
beforeAll(async () => {
  created = await createTestDatabase()
  const { db } = created.database
  await noteService(db, 'https://api.example.com')
  await recordInstruments(db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT' }), anInstrument({ symbol: 'ETHUSDT' })], from)
  const days = [0, 1, 2]
  await insertFills(
    db,
    days.flatMap((day) =>
      ['BTCUSDT', 'ETHUSDT', 'A/B'].flatMap((symbol) =>
        Array.from({ length: 50 }, (_, i) =>
          aFill({
            symbol,
            ts: from + day * dayMs + i * 1_000_000,
            execId: `${i}`,
            price,
            isRpi: i % 2 === 0 ? true : null,
          }),
        ),
      ),
    ),
  )
  await upsertCandles(db, [
    aCandle({ openTime: from, close: price, baseVolume: '0.000000000000000001' }),
    aCandle({ openTime: from + 60_000, close: '-99999999999999999999.999999999999999999' }),
  ])
  await appendRows(db, 'order_books', [
    aBook({ ts: from, bidPrices: ['240.00', '239.99'], bidSizes: [quantity, '2'], askPrices: [], askSizes: [] }),
  ])
  await appendRows(db, 'tickers', [aTicker({ ts: from, lastPrice: '1.50', extra: { new: 1.1 } })])
})
afterAll(async () => created.drop())

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-export-'))
  return async () => rm(folder, { recursive: true, force: true })
})

type Changes = Partial<Parameters<typeof runExport>[1]>
async function exportOf(what: string, changes: Changes = {}, options: Partial<Parameters<typeof runExport>[2]> = {}) {
  const source = await describeSource(created.database, what)
  const request = { what, source, folder, format: 'parquet' as const, from, to, ...changes }
  return runExport(created.database, request, options)
}

async function files(): Promise<string[]> {
  const all = await readdir(folder, { recursive: true, withFileTypes: true })
  const paths = all.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return paths.map((path) => path.slice(folder.length + 1)).toSorted()
}

/** Values as DuckDB shows them, so that no number passes through a float. */
async function duck(query: string): Promise<unknown[][]> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  try {
    const reader = await connection.runAndReadAll(query.replaceAll('FILES', `'${folder}/**/*.parquet'`))
    return reader.getRowsJson()
  } finally {
    connection.closeSync()
    instance.closeSync()
  }
}

describe('Parquet files', () => {
  test('open in DuckDB with the right types', async () => {
    await exportOf('fills')
    const types = await duck('select column_name, column_type from (describe select * from read_parquet(FILES))')
    expect(types).toEqual([
      ['category', 'VARCHAR'],
      ['symbol', 'VARCHAR'],
      ['ts', 'TIMESTAMP WITH TIME ZONE'],
      ['exec_id', 'VARCHAR'],
      ['exec_link_id', 'VARCHAR'],
      ['side', 'VARCHAR'],
      ['price', 'DECIMAL(38,20)'],
      ['size', 'DECIMAL(38,4)'],
      ['is_rpi', 'BOOLEAN'],
      ['source', 'VARCHAR'],
      ['received_at', 'TIMESTAMP WITH TIME ZONE'],
      ['extra', 'VARCHAR'],
      ['day', 'DATE'],
    ])
  })

  test('hold every row once, with the values that were sent', async () => {
    const result = await exportOf('fills')
    expect(result).toMatchObject({ rows: 450, files: 9, partsSkipped: 0, asText: [] })
    const inFiles = await duck(`
      select category, symbol, epoch_ms(ts)::varchar, exec_id, side, price::varchar, size::varchar, is_rpi, extra
      from read_parquet(FILES) order by 2, 3`)
    const { rows } = await created.database.pool.query<unknown[]>({
      text: `select category::text, symbol, (extract(epoch from ts) * 1000)::bigint::text, exec_id, side::text,
          price::numeric(38, 20)::text, size::numeric(38, 4)::text, is_rpi, extra::text
        from market.fills order by 2, 3`,
      rowMode: 'array',
    })
    expect(inFiles).toEqual(rows)
    expect(inFiles).toHaveLength(450)
    expect(await duck(`select distinct price::varchar from read_parquet(FILES)`)).toEqual([[`${price}00`]])
  })

  test('lie by day and instrument, and DuckDB reads only those that are asked for', async () => {
    await exportOf('fills')
    expect((await files()).slice(0, 3)).toEqual([
      'day=2026-03-01/category=SPOT/symbol=A%2FB/fills.parquet',
      'day=2026-03-01/category=SPOT/symbol=BTCUSDT/fills.parquet',
      'day=2026-03-01/category=SPOT/symbol=ETHUSDT/fills.parquet',
    ])
    const read = `from read_parquet(FILES, hive_partitioning = true) where symbol = 'A/B' and day = '2026-03-02'`
    expect(await duck(`select count(*)::integer, min(ts)::varchar ${read}`)).toEqual([[50, '2026-03-02 00:00:00+00']])
  })

  test('keep 18 decimals of a candle and all 25 digits of a quantity in a book', async () => {
    await exportOf('candles')
    expect(
      await duck('select close::varchar, base_volume::varchar from read_parquet(FILES) order by open_time'),
    ).toEqual([
      [price, '0.00000000000000000100'],
      ['-99999999999999999999.999999999999999999', '5.00000000000000000000'],
    ])
    await exportOf('order_books', { isOverwriting: true })
    expect(
      await duck(`select typeof(bid_sizes), bid_sizes[1]::varchar, len(bid_sizes)::integer, ask_prices::varchar, mid
        from read_parquet(FILES)`),
    ).toEqual([['DECIMAL(38,14)[]', `${quantity}00`, 2, '[]', null]])
  })

  test('hold decimals that multiply', async () => {
    await exportOf('fills', { to: from + dayMs })
    const [[turnover] = []] = await duck('select sum(price * size)::varchar from read_parquet(FILES)')
    const { rows } = await created.database.pool.query<{ turnover: string }>(
      'select trim_scale(sum(price * size))::text as turnover from market.fills where ts < $1',
      [new Date(from + dayMs)],
    )
    expect((turnover as string).replace(/0+$/, '')).toBe(rows[0]?.turnover)
  })

  test('stay where a later day needs more digits, until all are exported anew', async () => {
    const { db, pool } = created.database
    const middle = from + dayMs
    const count = 'select typeof(min(size)), count(*)::integer from read_parquet(FILES)'
    await exportOf('fills', { to: middle })
    onTestFinished(async () => void (await pool.query("delete from market.fills where exec_id = 'fine'")))
    await insertFills(db, [aFill({ symbol: 'BTCUSDT', ts: middle + 1, execId: 'fine', size: '0.00025' })])
    await expect(exportOf('fills')).rejects.toThrow(
      'size holds 0.00025, which DECIMAL(38, 4) cannot hold exactly: export into another folder, or all days anew with --overwrite',
    )
    expect(await duck(count)).toEqual([['DECIMAL(38,4)', 150]])
    expect(await exportOf('fills', { isOverwriting: true })).toMatchObject({ rows: 451, asText: [] })
    expect(await duck(count)).toEqual([['DECIMAL(38,7)', 451]])
  })

  test('hold as text, in every file, what no DECIMAL can hold', async () => {
    const { db } = created.database
    const long = '0.123456789012345678901234567'
    const wide = '1234567890123456789012345678901234567890'
    await appendRows(db, 'order_books', [
      aBook({ ts: from + dayMs, bidPrices: ['1'], bidSizes: [long], askPrices: ['2'], askSizes: [wide] }),
    ])
    const notes: string[] = []
    const result = await exportOf('order_books', {}, { onNote: (note) => notes.push(note) })
    expect(result.asText).toEqual(['bid_sizes', 'ask_sizes'])
    expect(notes).toHaveLength(2)
    expect(notes[0]).toMatch(/^bid_sizes holds 13 digits before the point and 27 after it, more than a DECIMAL/)
    expect(await duck('select bid_sizes, ask_sizes, bid_prices from read_parquet(FILES) order by ts')).toEqual([
      [[quantity, '2'], [], ['240.0000', '239.9900']],
      [[long], [wide], ['1.0000']],
    ])
    await created.database.pool.query('delete from market.order_books where ts >= $1', [new Date(from + dayMs)])
  })

  test('are made of views, functions and queries too', async () => {
    await exportOf('ohlcv_1h')
    expect(await files()).toEqual(['day=2026-03-01/category=SPOT/symbol=BTCUSDT/ohlcv_1h.parquet', 'export.json'])
    const query = `select symbol, last_price, extra from market.latest_tickers;`
    const result = await exportOf(query, { isOverwriting: true })
    expect(result).toMatchObject({ rows: 1, files: 1 })
    expect(await files()).toEqual(['all/query.parquet', 'export.json'])
    expect(await duck('select * from read_parquet(FILES)')).toEqual([['BTCUSDT', '1.5', '{"new": 1.1}']])
  })
})

test.each(['coverage', 'gaps'])('%s that began before the first day are part of it', async (what) => {
  const { db } = created.database
  const series = { stream: 'fills', category: 'SPOT', symbol: 'NOCANDLES', type: '', interval: '' } as const
  const days = { '-5': -4, '-2': 1, 2: 9, 9: 10 }
  for (const [first, last] of Object.entries(days)) {
    const range = { from: from + Number(first) * dayMs, to: from + last * dayMs }
    if (what === 'coverage') await addCoverage(db, series, [range])
    else await recordGap(db, { ...series, range, reason: 'a test', verdict: 'lost' })
  }
  onTestFinished(async () => void (await created.database.pool.query('delete from recorder.ledger')))
  await exportOf(what)
  const rows = await duck('select day::varchar, from_time::varchar from read_parquet(FILES) order by 2')
  expect(rows).toEqual([
    ['2026-03-01', '2026-02-27 00:00:00+00'],
    ['2026-03-03', '2026-03-03 00:00:00+00'],
  ])
})

test('CSV files hold the same, as text', async () => {
  await exportOf('fills', { format: 'csv', symbols: ['BTCUSDT'], symbolPatterns: ['BTC*'], to: from + dayMs })
  expect(await files()).toEqual(['day=2026-03-01/category=SPOT/symbol=BTCUSDT/fills.csv', 'export.json'])
  const lines = (await readFile(join(folder, (await files())[0] ?? ''), 'utf8')).trimEnd().split('\n')
  expect(lines).toHaveLength(51)
  expect(lines.slice(0, 2)).toEqual([
    'category,symbol,ts,exec_id,exec_link_id,side,price,size,is_rpi,source,received_at,extra',
    `SPOT,BTCUSDT,2026-03-01T00:00:00.000000Z,0,,buy,${price},0.010,true,live,2026-01-15T12:00:00.250000Z,{}`,
  ])
})

test('a symbol that is longer than a name of a file may be has a folder all the same, and its rows keep it', async () => {
  const long = ['龙'.repeat(200), `${'龙'.repeat(199)}虾`, `${'a'.repeat(199)}%`]
  await insertFills(
    created.database.db,
    long.map((symbol) => aFill({ symbol, ts: from + 5 })),
  )
  try {
    await exportOf('fills', { format: 'csv', symbols: long, symbolPatterns: long, to: from + dayMs })
    const written = (await files()).filter((name) => name.endsWith('.csv'))
    expect(new Set(written).size).toBe(3)
    const contents = await Promise.all(written.map((name) => readFile(join(folder, name), 'utf8')))
    expect(new Set(contents.map((text) => text.split('\n')[1]?.split(',')[1]))).toEqual(new Set(long))
  } finally {
    await created.database.pool.query('delete from market.fills where symbol = any ($1)', [long])
  }
})

describe('an export that was stopped', () => {
  test('goes on where it was, and leaves no half of a day', async () => {
    const stop = new AbortController()
    const stopping = exportOf(
      'fills',
      {},
      {
        signal: stop.signal,
        onProgress: ({ partsDone, rows }) => {
          if (partsDone === 1 && rows > 150) stop.abort(new Error('stopped'))
        },
      },
    )
    await expect(stopping).rejects.toThrow('stopped')
    expect(new Set((await files()).map((path) => path.split('/')[0]))).toEqual(
      new Set(['day=2026-03-01', 'export.json']),
    )
    expect(await exportOf('fills')).toMatchObject({ rows: 300, files: 6, partsSkipped: 1 })
    expect(await duck('select count(*)::integer from read_parquet(FILES)')).toEqual([[450]])
    expect(await exportOf('fills')).toMatchObject({ rows: 0, files: 0, partsSkipped: 3 })
  })

  test('writes again a day whose rows have changed since', async () => {
    await exportOf('fills')
    const late = [aFill({ symbol: 'BTCUSDT', ts: from + dayMs + 7, execId: 'late' })]
    await insertFills(created.database.db, late)
    const drop = () => created.database.pool.query("delete from market.fills where exec_id = 'late'")
    onTestFinished(async () => void (await drop()))
    expect(await exportOf('fills')).toMatchObject({ rows: 151, partsSkipped: 2 })
    expect(await duck('select count(*)::integer from read_parquet(FILES)')).toEqual([[451]])
    await drop()
    await rm(join(folder, 'day=2026-03-02'), { recursive: true })
    expect(await exportOf('fills')).toMatchObject({ rows: 150, partsSkipped: 2 })
    await created.database.pool.query('update market.fills set is_rpi = null where ts = $1', [new Date(from)])
    expect(await exportOf('fills')).toMatchObject({ rows: 150, partsSkipped: 2 })
    await created.database.pool.query('update market.fills set is_rpi = true where ts = $1', [new Date(from)])
    await rm(join(folder, 'day=2026-03-02'), { recursive: true })
    expect(await exportOf('fills')).toMatchObject({ rows: 300, partsSkipped: 1 })
  })

  test('is not mixed with another one', async () => {
    await exportOf('fills')
    await expect(exportOf('candles')).rejects.toThrow(/holds another export \(fills\).*--overwrite/)
    await expect(exportOf('fills', { categories: ['SPOT'] })).rejects.toThrow(/--overwrite/)
    await exportOf('candles', { isOverwriting: true })
    expect((await files()).filter((path) => path.includes('fills'))).toEqual([])
  })
})

test('more rows than a row group, in bounded memory', async () => {
  const query = `select 'SPOT'::market.category as category, 'BTCUSDT' as symbol,
    '2026-03-01Z'::timestamptz + i * interval '1 millisecond' as ts, i, (i / 7.0)::numeric(20, 9) as value
    from generate_series(1, 120000) as i`
  expect(await exportOf(query)).toMatchObject({ rows: 120_000, files: 1 })
  expect(
    await duck(
      'select count(*)::integer, sum(i)::varchar, sum(value)::varchar, max(ts)::varchar from read_parquet(FILES)',
    ),
  ).toEqual([[120_000, '7200060000', '1028580000.00000000000', '2026-03-01 00:02:00+00']])
})
