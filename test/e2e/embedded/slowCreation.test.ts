import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { startEmbeddedPostgres } from '../../../src/server/embedded/embedded.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const folder = temporaryFolder('slow-creation')

it('a server has its time to start after a database whose creation took long', async () => {
  const now = performance.now.bind(performance)
  let passedMs = 0
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + passedMs)
  // The first line says that the creation begins.
  const logger = { info: () => void (passedMs = 600_000), warn: () => undefined, error: () => undefined }
  try {
    const server = await startEmbeddedPostgres({ dataDir: join(folder, 'postgres'), logger })
    await server.stop()
    expect(passedMs).toBe(600_000)
  } finally {
    clock.mockRestore()
  }
})
