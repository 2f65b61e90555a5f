import { describe, expect, test } from 'vitest'
import { parseFault, parseQuirk } from '../../../src/cli/simulate.js'

describe('faults on the command line', () => {
  test.each([
    ['reset', { kind: 'reset' }],
    ['http:status=503,probability=0.1', { kind: 'http', status: 503, probability: 0.1 }],
    ['errorCode:code=45001', { kind: 'errorCode', code: '45001' }],
    ['html:operations=tickers+fills,count=3', { kind: 'html', operations: ['tickers', 'fills'], count: 3 }],
    ['down:after=100,for=50', { kind: 'down', fromMs: 1_100, toMs: 1_150 }],
    ['clockSkew:ms=-5000', { kind: 'clockSkew', ms: -5_000 }],
  ])('%s', (text, fault) => {
    expect(parseFault(text, 1_000)).toMatchObject(fault)
  })

  test.each([
    ['earthquake', 'There is no fault "earthquake". Known are latency, reset'],
    ['http', 'http: status:'],
    ['http:status=200', 'http: status:'],
    ['html:probability', '"probability" must be name=value'],
    ['html:colour=red', 'html: value: Unrecognized key'],
  ])('%s is refused in one line', (text, message) => {
    expect(() => parseFault(text, 0)).toThrow(message)
  })
})

describe('quirks on the command line', () => {
  test('a name switches it on, a value sets it, the others are left alone', () => {
    expect(parseQuirk('rpiBookAsStrings')).toEqual({ rpiBookAsStrings: true })
    expect(parseQuirk('errorHttpStatus=200')).toEqual({ errorHttpStatus: 200 })
    expect(parseQuirk('notSetSpellings=empty')).toEqual({ notSetSpellings: 'empty' })
    expect(parseQuirk('brokenRows={"operations":["fills"],"kind":"type"}')).toEqual({
      brokenRows: { operations: ['fills'], kind: 'type' },
    })
  })

  test('wrong ones are refused in one line', () => {
    expect(() => parseQuirk('rpiBookAsString')).toThrow(
      /^There is no quirk "rpiBookAsString"\. Known are .*rpiBookAsStrings/,
    )
    expect(() => parseQuirk('tickerTsZero=2')).toThrow(/^tickerTsZero: .*$/)
  })
})
