import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { hasOpenssl, makeCertificate } from '../../support/certificate.js'
import { clientOf } from '../../support/fakeService.js'

if (!hasOpenssl)
  process.stderr.write('not tested: a service with a certificate of its own (there is no openssl to make one)\n')

test.skipIf(!hasOpenssl)('a service with a certificate that nobody vouches for is not talked to', async () => {
  let answered = 0
  const server = createServer({ ...makeCertificate() }, (_request, response) => {
    answered++
    response.end('{"code":"00000","msg":"success","requestTime":1,"data":[]}')
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const client = clientOf(`https://127.0.0.1:${(server.address() as AddressInfo).port}`)
  try {
    await expect(client.rpiSymbols()).rejects.toThrow(/self-signed certificate/)
    expect(answered).toBe(0)
  } finally {
    client.close()
    server.close()
  }
})
