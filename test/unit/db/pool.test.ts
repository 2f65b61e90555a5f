import { expect, test } from 'vitest'
import { connectionString } from '../../../src/db/pool.js'

test('a certificate is read from a file, and not from what may have no end', () => {
  const url = (file: string) => connectionString(`postgresql://user@host/database?sslrootcert=${file}`)
  expect(() => url('/dev/zero')).toThrow('/dev/zero is no regular file')
  expect(url(import.meta.filename)).toContain('sslrootcert=')
  expect(url('/missing')).toContain('sslrootcert=')
})
