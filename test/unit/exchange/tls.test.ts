import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { clientOf } from '../../support/fakeService.js'

const hasOpenssl = spawnSync('openssl', ['version']).status === 0
if (!hasOpenssl)
  process.stderr.write('not tested: a service with a certificate of its own (there is no openssl to make one)\n')

test.skipIf(!hasOpenssl)('a service with a certificate that nobody vouches for is not talked to', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'market-recorder-tls-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
  const subject = ['-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']
  execFileSync(
    'openssl',
    ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-keyout', key, '-out', cert, ...subject],
    {
      stdio: 'ignore',
    },
  )
  let answered = 0
  const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (_request, response) => {
    answered++
    response.end('{"code":"00000","msg":"success","requestTime":1,"data":[]}')
  })
  rmSync(folder, { recursive: true })
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
