import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'

/** A folder for a test file, which is removed after it. Call it where tests are declared. */
export function temporaryFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `market-recorder-${name}-`))
  afterAll(() => rm(folder, { recursive: true, force: true }))
  return folder
}
