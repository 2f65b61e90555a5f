import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import { LosslessNumber } from 'lossless-json'
import { describe, expect, it } from 'vitest'
import { rowsFrom, snakeCase, toJson } from '../../../src/db/columns.js'

/** Compiles; connects to nothing. */
const compiler = new Kysely<unknown>({
  dialect: {
    createAdapter: () => new PostgresAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (db) => new PostgresIntrospector(db),
    createQueryCompiler: () => new PostgresQueryCompiler(),
  },
})

describe('names of columns', () => {
  it('are the fields in snake case', () => {
    const names = ['baseCoin', 'isIsolatedQuotedBorrowable', 'bid1Price', 'volume24h', 'price24hPcnt', 'openPrice24h']
    expect(names.map((name) => snakeCase(name))).toEqual([
      'base_coin',
      'is_isolated_quoted_borrowable',
      'bid1_price',
      'volume_24h',
      'price_24h_pcnt',
      'open_price_24h',
    ])
  })
})

describe('rows as arrays', () => {
  it('are one parameter per column, every value quoted and no value able to be taken for two', () => {
    const rows = [
      ['a"b\\', '1.0', null],
      [null, '1,5', ['1.0', '2']],
    ] as const
    const source = rowsFrom(
      rows,
      [
        { name: 'a', kind: 'text' },
        { name: 'b', kind: 'decimal' },
        { name: 'c', kind: 'decimals' },
      ],
      (row, column) => row[column] ?? null,
    )
    const { parameters } = sql`select from ${source} as x`.compile(compiler)
    expect(parameters).toEqual(['{"a\\"b\\\\",NULL}', '{"1.0","1,5"}', '{NULL,"{1.0,2}"}'])
  })

  it('have a column that is the same in all of many rows as one value, but never all columns', () => {
    const rows = Array.from({ length: 20 }, (_, place) => ['x', `${place}`, 'y', 7, null])
    const text = { kind: 'text' } as const
    const compiled = (names: string, of: readonly (readonly (string | number | null)[])[] = rows) => {
      const columns = names.split('').map((name) => ({ name, ...text }))
      const source = rowsFrom(of, columns, (row, column) => row['abcde'.indexOf(names[column] ?? '')] ?? null)
      return sql`select from ${source} as x`.compile(compiler)
    }
    const places = `{${rows.map(([, place]) => `"${place}"`).join(',')}}`
    expect(compiled('abcde').parameters).toEqual(['{"x"}', '{"y"}', '{7}', '{NULL}', places])
    expect(compiled('abcde').sql).toContain(
      '(select ($1::text[])[1] as "a", u."b" as "b", ($2::text[])[1] as "c", ($3::text[])[1] as "d", ($4::text[])[1] as "e", ' +
        'u.ordinality from unnest($5::text[]) with ordinality as u ("b", "ordinality"))',
    )
    expect(compiled('ac').parameters).toEqual(['{"x"}', `{${rows.map(() => '"y"').join(',')}}`])
    expect(compiled('ab', rows.slice(0, 15)).parameters[0]).toHaveLength('{"x"}'.length + 14 * '"x",'.length)
  })

  it('can be empty', () => {
    const source = rowsFrom([], [{ name: 'a', kind: 'text' }], () => null)
    expect(sql`select from ${source} as x`.compile(compiler).parameters).toEqual(['{}'])
  })
})

describe('JSON for the server', () => {
  it('keeps numbers as they were sent', () => {
    expect(toJson({ a: new LosslessNumber('1.00000000000000000001'), b: [1, 'x'] })).toBe(
      '{"a":1.00000000000000000001,"b":[1,"x"]}',
    )
  })

  it('has no NUL and no lone surrogate, and keeps text that only looks like one', () => {
    expect(toJson('a\0b\ud800c\\u0000\u{1f600}')).toBe('"a\u{fffd}b\u{fffd}c\\\\u0000\u{1f600}"')
  })
})
