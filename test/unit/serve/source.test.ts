import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { systemClock } from '../../../src/runtime/clock.js'
import { respondingAddress, writeAddress } from '../../../src/serve/source.js'
import { hasOpenssl, makeCertificate } from '../../support/certificate.js'

it.skipIf(!hasOpenssl)('a recorder with a self-signed certificate is found in its folder like any other', async () => {
  const { cert, key } = makeCertificate()
  const server = createServer({ cert, key }, (_request, response) => response.end('{"ok":true,"reasons":[]}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-address-'))
  try {
    const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
    await writeAddress(folder, url)
    expect(await respondingAddress(systemClock, folder)).toBe(url)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await rm(folder, { recursive: true })
  }
  expect(await respondingAddress(systemClock, folder)).toBe(null)
})
