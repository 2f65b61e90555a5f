import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import { withRowLock } from '../../../src/store/queueConnection.js'

interface Plans {
  locked(schema: string, query: string): string
}

describe('the statements of the queue', () => {
  it('lock a row that only writers may lock, where the library would take an advisory lock', () => {
    const plans = createRequire(import.meta.url)('pg-boss/src/plans.js') as Plans
    const text = plans.locked('recorder_queue', 'select 1')
    expect(text).toContain('pg_advisory_xact_lock')
    const replaced = withRowLock(text)
    expect(replaced).not.toContain('advisory')
    expect(replaced).toMatch(
      /BEGIN;[\s\S]*recorder\.lock WHERE name = 'queue' AND place = '' FOR UPDATE;[\s\S]*COMMIT;/,
    )
  })

  it('are refused when they take one that is not known', () => {
    expect(() => withRowLock('select pg_try_advisory_lock(1)')).toThrow(/which anybody could hold/)
    expect(withRowLock('select 1')).toBe('select 1')
  })
})
