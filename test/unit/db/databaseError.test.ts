import { describe, expect, test } from 'vitest'
import { isOfDatabase, mayPassLater, rowChecks, traitsOf } from '../../../src/db/databaseError.js'

const withCode = (code: string, constraint?: string) =>
  Object.assign(new Error('the server said no'), { code, constraint })

/** Names of the traits that an error has, but for the advice. */
function named(error: unknown): string[] {
  return Object.entries(traitsOf(error))
    .filter(([, value]) => value === true)
    .map(([name]) => name)
    .toSorted()
}

describe('traits', () => {
  test.each([
    ['08006', ['isAway', 'isPassing']],
    ['57P01', ['isAway', 'isPassing']],
    ['57P03', ['isAway', 'isPassing', 'preventsTakeover']],
    ['57P04', ['isPassing']],
    ['ECONNREFUSED', ['isAway', 'isPassing', 'preventsTakeover']],
    ['ENOTFOUND', ['isPassing']],
    ['25006', ['isPassing']],
    ['53100', ['isPassing', 'preventsTakeover']],
    ['53300', ['isPassing']],
    ['55P03', ['isLocked', 'isPassing']],
    ['40P01', ['isConflict', 'isPassing']],
    ['42P01', ['preventsTakeover']],
    ['57014', ['isCancelled']],
    ['22P02', ['isOfRow']],
    ['23505', ['isDuplicate']],
    ['42P07', ['isDuplicate']],
    ['28P01', []],
  ])('of %s are %j', (code, expected) => {
    expect(named(withCode(code))).toEqual(expected)
  })

  test('of a lost connection without a code are those of a broken one', () => {
    expect(named(new Error('Connection terminated unexpectedly'))).toEqual(['isAway', 'isPassing'])
    expect(traitsOf(new Error('Connection terminated: silent for 5000 ms')).advice).toContain('may be restarting')
    expect(named(new Error('anything else'))).toEqual([])
  })

  test('of several failed addresses are those of the first', () => {
    expect(named(new AggregateError([withCode('ECONNREFUSED'), withCode('ENETUNREACH')]))).toContain('preventsTakeover')
  })
})

test('only a check of the recorder proves that a row is wrong', () => {
  const [check = ''] = rowChecks
  expect(named(withCode('23514', check))).toEqual(['isOfRow'])
  expect(named(withCode('23514', 'a_check_of_the_user'))).toEqual([])
})

test('bad data in a function of somebody else is no fault of the row', () => {
  const within = (...where: string[]) => Object.assign(withCode('22001'), { where: where.join('\n') })
  const own = 'PL/pgSQL function recorder.store_fills(market.category[],text[]) line 27 at FOR over SELECT rows'
  expect(named(within(own))).toEqual(['isOfRow'])
  expect(named(within('JSON data, line 1: {', own))).toEqual(['isOfRow'])
  expect(named(within('PL/pgSQL-Funktion recorder.store_fills(text[]) Zeile 27 bei FOR'))).toEqual(['isOfRow'])
  const statement = 'SQL statement "insert into public.watch values (new.symbol)"'
  for (const of of ['function public.copy()', 'function copy()', 'function inline_code_block'])
    expect(named(within(statement, `PL/pgSQL ${of} line 3 at SQL statement`, own))).toEqual([])
  expect(named(within('PL/Python function "copy"'))).toEqual([])
})

test('a failure of the environment may pass, one of the row or of the program does not', () => {
  for (const code of ['08006', '53100', '25006', '42P01', '42501', '23514', 'P0001'])
    expect(mayPassLater(withCode(code))).toBe(true)
  expect(mayPassLater(withCode('22003'))).toBe(false)
  expect(mayPassLater(new TypeError('rows is not iterable'))).toBe(false)
  expect(isOfDatabase(new TypeError('rows is not iterable'))).toBe(false)
  expect(isOfDatabase(withCode('42501'))).toBe(true)
})
