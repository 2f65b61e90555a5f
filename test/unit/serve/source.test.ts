import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.js'
import { respondingAddress, writeAddress } from '../../../src/serve/source.js'

it('a recorder is found in its folder as long as it responds', async () => {
  const server = createServer((_request, response) => response.end('{"ok":true,"reasons":[]}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-address-'))
  try {
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await writeAddress(folder, url)
    expect(await respondingAddress(systemClock, folder)).toBe(url)
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    expect(await respondingAddress(systemClock, folder)).toBe(null)
  } finally {
    await rm(folder, { recursive: true })
  }
})
