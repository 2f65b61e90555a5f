import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely'
import { LosslessNumber } from 'lossless-json'
import { describe, expect, it } from 'vitest'
import { rowsFrom, snakeCase, toJson } from '../../../../src/store/db/columns.js'

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
