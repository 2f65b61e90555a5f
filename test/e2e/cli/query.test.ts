import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { appendRows } from '../../../src/db/writeRows.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aBook, aCandle } from '../../support/marketRows.js'
import { entryPoint, runProgram } from '../../support/program.js'

const price = '12345.123456789012345678'
const quantity = '1234567890123.123456789012'

let created: TestDatabase
beforeAll(async () => {
  created = await createTestDatabase()
  await upsertCandles(created.database.db, [aCandle({ close: price })])
  await appendRows(created.database.db, 'order_books', [aBook({ bidPrices: ['1'], bidSizes: [quantity] })])
})
afterAll(async () => created.drop())

async function query(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await runProgram(['query', ...args], { DATABASE_URL: created.url })
  expect(stderr).toBe('')
  expect(exitCode).toBe(0)
  return stdout
}

describe('query', () => {
  test('gives decimals as they were sent, in each of its forms', async () => {
    const sql = 'select c.close, b.bid_sizes from market.candles c, market.order_books b'
    expect(await query(sql)).toContain(`${price} │ {${quantity}}`)
    expect(await query('--csv', sql)).toBe(`close,bid_sizes\n${price},{${quantity}}\n`)
    expect(JSON.parse(await query('--json', sql))).toEqual([{ close: price, bid_sizes: [quantity] }])
  })

  test('gives what programs can read: quoted CSV, typed JSON, NULL, no rows', async () => {
    const sql = `select 'a "b", c' as text, null as nothing, '' as blank, true as yes, 7 as small, 9007199254740993 as large,
      '{"n": 1.10}'::jsonb as extra`
    expect(await query('--csv', sql)).toBe(
      'text,nothing,blank,yes,small,large,extra\n"a ""b"", c",,"",true,7,9007199254740993,"{""n"": 1.10}"\n',
    )
    const json = await query('--json', sql)
    expect(JSON.parse(json)).toEqual([
      { text: 'a "b", c', nothing: null, blank: '', yes: true, small: 7, large: '9007199254740993', extra: { n: 1.1 } },
    ])
    expect(json).toContain('"n": 1.10')
    expect(await query('--csv', 'select 1 as one where false')).toBe('one\n')
    expect(JSON.parse(await query('--json', 'select 1 as one where false'))).toEqual([])
    expect(await query('select 1 as one where false')).toBe('0 rows\n')
  })

  test('gives arrays to programs as JSON has them, whatever is in them', async () => {
    const sql = `select array[1.10, null] as decimals, '{}'::int[] as none, array['a,"b', 'NULL'] as texts,
      array[array[true], array[false]] as nested, array[7]::int4[] as small, '[0:1]={1,2}'::int8[] as shifted,
      array['SPOT']::market.category[] as categories`
    expect(JSON.parse(await query('--json', sql))).toEqual([
      {
        decimals: ['1.10', null],
        none: [],
        texts: ['a,"b', 'NULL'],
        nested: [[true], [false]],
        small: [7],
        shifted: ['1', '2'],
        categories: ['SPOT'],
      },
    ])
  })

  test('gives control characters to programs as they are, and to a terminal spelled out', async () => {
    const sql = "select e'\\x1b[31mred' as text"
    expect(await query('--csv', sql)).toBe('text\n\u001b[31mred\n')
    // The program `script` of util-linux runs a command on a terminal of its own.
    const command = `'${process.execPath}' '${entryPoint}' query --csv "${sql}"`
    const { stdout } = spawnSync('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
      env: { ...process.env, DATABASE_URL: created.url },
      encoding: 'utf8',
    })
    expect(stdout).toContain(String.raw`\x1b[31mred`)
    expect(stdout).not.toContain('\u001b[31m')
  })

  test('gives every row to programs, and the first thousand to people', async () => {
    const sql = 'select i from generate_series(1, 2500) as i'
    const lines = (await query('--csv', sql)).trimEnd().split('\n')
    expect(lines).toEqual(['i', ...Array.from({ length: 2_500 }, (_, i) => String(i + 1))])
    expect(await query(sql)).toMatch(/│ 1000 │\n.*\nthe first 1000 rows; --rows, --csv and --json give more\n$/)
    expect(await query('--rows', '2500', sql)).toMatch(/\n2500 rows\n$/)
  })

  test('takes a statement that begins with a comment, before options and after them', async () => {
    for (const comment of ['-- of today', '--of today']) {
      const sql = `${comment}\nselect 1 as one`
      for (const args of [
        [sql, '--csv'],
        ['--csv', sql],
        ['--csv', '--', sql],
      ])
        expect(await query(...args)).toBe('one\n1\n')
    }
    const { exitCode, stderr } = await runProgram(['query', '--cvs', 'select 1'], { DATABASE_URL: created.url })
    expect({ exitCode, stderr }).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('Did you mean --csv?') as string,
    })
  })

  test('gives times in UTC', async () => {
    expect(await query('--csv', "select timestamptz '2026-01-01 09:00+09' as at")).toBe('at\n2026-01-01 00:00:00+00\n')
  })

  test('gives no JSON of columns with equal names, because readers would see one of them', async () => {
    const sql = 'select 1 as n, 2 as n'
    const { exitCode, stdout, stderr } = await runProgram(['query', '--json', sql], { DATABASE_URL: created.url })
    expect(stderr).toBe('error: two columns are named "n"; rename one with "as", or use --csv\n')
    expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
    expect(await query('--csv', sql)).toBe('n,n\n1,2\n')
  })

  test('gives up after its timeout, also between rows', async () => {
    const never = 'select pg_sleep(0.01) from generate_series(1, 1000000)'
    const { exitCode, stderr } = await runProgram(['query', '--csv', '--timeout', '1', never], {
      DATABASE_URL: created.url,
    })
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/^error: .*the statement exceeded its time limit.*\n$/)
  })

  test.each([
    'with gone as (delete from market.candles returning 1) select * from gone',
    "select set_config('transaction_read_only', 'off', true); delete from market.candles",
    'select 1; select 2',
    'explain analyze delete from market.candles',
    'truncate market.candles',
  ])('changes nothing: %s', async (sql) => {
    const { exitCode, stderr } = await runProgram(['query', sql], { DATABASE_URL: created.url })
    expect(exitCode).toBe(1)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(await query('--csv', 'select count(*) from market.candles')).toBe('count\n1\n')
  })
})
