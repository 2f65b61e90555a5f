import fs from 'node:fs/promises'
import { expect, test } from 'vitest'
import { embeddedPaths, readPasswords } from '../../../../src/server/embedded/process.js'
import { temporaryFolder } from '../../../support/temporaryFolder.js'

const folder = temporaryFolder('passwords')

test('the modes of password files that others could read are mended when they are read', async () => {
  const files = Object.values(embeddedPaths(folder).passwords)
  for (const file of files) await fs.writeFile(file, 'secret\n', { mode: 0o644 })
  expect(await readPasswords(folder)).toEqual({ owner: 'secret', page: 'secret', reader: 'secret' })
  for (const file of files) expect((await fs.stat(file)).mode & 0o777).toBe(0o600)
})
