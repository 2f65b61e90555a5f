import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { environmentOptions, secretVariables, setsOptions } from '../../../src/config/environment.js'
import { resolveConfig } from '../../../src/config/resolve.js'

const read = [...Object.keys(environmentOptions), ...secretVariables.map((name) => `${name}_FILE`)]

describe('setsOptions', () => {
  it('is false only where the configuration is that of the defaults', () => {
    const name = fc.oneof(fc.constantFrom(...read), fc.stringMatching(/^[A-Z_]{1,20}$/))
    const value = fc.oneof(fc.constant(''), fc.constant(undefined), fc.string({ minLength: 1, maxLength: 5 }))
    fc.assert(
      fc.property(fc.dictionary(name, value), (env) => {
        if (setsOptions(env)) return
        expect(resolveConfig(env)).toEqual(resolveConfig({}))
      }),
    )
  })

  it.each(read)('is true with %s', (name) => {
    expect(setsOptions({ [name]: 'x' })).toBe(true)
    expect(setsOptions({ [name]: '' })).toBe(false)
  })
})
