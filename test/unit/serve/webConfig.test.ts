import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { hashSync } from 'bcryptjs'
import { afterAll, describe, expect, test } from 'vitest'
import { ConfigError } from '../../../src/config/configError.js'
import { readWebConfig } from '../../../src/serve/webConfig.js'
import { hasOpenssl, makeCertificate } from '../../support/certificate.js'

const folder = mkdtempSync(join(tmpdir(), 'market-recorder-web-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = join(folder, 'web.yml')
const hash = hashSync('a password', 4)

async function problemsOf(text: string): Promise<readonly string[]> {
  writeFileSync(file, text)
  const error: unknown = await readWebConfig(file).catch((reason: unknown) => reason)
  if (!(error instanceof ConfigError)) throw new Error('there is nothing wrong with it', { cause: error })
  return error.problems.map((line) => line.replaceAll(folder, ''))
}

test('names users with the hashes of their passwords, and changes with the file', async () => {
  writeFileSync(file, `basic_auth_users:\n  alice: ${hash}\n  7: '$2y$10$${'a'.repeat(53)}'\n  __proto__: ${hash}\n`)
  const first = await readWebConfig(file)
  expect(first.tls).toBeNull()
  expect(first.users.get('alice')).toBe(hash)
  expect(first.users.get('7')).toBe(`$2y$10$${'a'.repeat(53)}`)
  expect(first.users.has('constructor')).toBe(false)
  expect(await readWebConfig(file)).toEqual(first)
  writeFileSync(file, `basic_auth_users:\n  alice: ${hash}\n`)
  expect(await readWebConfig(file)).not.toEqual(first)
})

describe.skipIf(!hasOpenssl)('a certificate', () => {
  const one = hasOpenssl ? makeCertificate() : { cert: '', key: '' }
  mkdirSync(join(folder, 'tls'), { recursive: true })
  writeFileSync(join(folder, 'tls/cert.pem'), one.cert)
  writeFileSync(join(folder, 'tls/key.pem'), one.key)

  test('is found beside the file, wherever the program runs', async () => {
    writeFileSync(file, 'tls_server_config: { cert_file: tls/cert.pem, key_file: tls/key.pem }\n')
    expect(await readWebConfig(file)).toMatchObject({ tls: one, users: new Map() })
  })

  test('with the key of another one is refused in one line', async () => {
    writeFileSync(join(folder, 'other.pem'), makeCertificate().key)
    const problems = await problemsOf('tls_server_config:\n  cert_file: tls/cert.pem\n  key_file: other.pem\n')
    expect(problems).toEqual([expect.stringMatching(/^\/web.yml:1: the certificate and the key cannot be used.*PEM/)])
  })
})

const isNoHash = 'must be a bcrypt hash with a cost of 4 to 15, as `htpasswd -nB NAME` makes it; correct it'

test.each([
  [
    'nothing',
    '',
    '/web.yml: protects nothing; give tls_server_config or basic_auth_users, or leave serve.webConfigFile out',
  ],
  [
    'an option of other programs',
    'http_server_config: { http2: true }',
    '/web.yml:1: http_server_config is not an option here, which are tls_server_config and basic_auth_users; remove it',
  ],
  [
    'another below',
    'tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: TLS13',
    '/web.yml:4: tls_server_config.min_version is not an option here, which are cert_file and key_file; remove it',
  ],
  [
    'a certificate without its key',
    'tls_server_config:\n  cert_file: a',
    '/web.yml:1: tls_server_config.key_file must be the path of a PEM file; give it',
  ],
  [
    'a file that is not there',
    'tls_server_config:\n  cert_file: a\n  key_file: /dev/null',
    '/a: there is no such file; correct tls_server_config.cert_file at /web.yml:2',
  ],
  [
    'no user',
    'basic_auth_users: {}',
    '/web.yml:1: basic_auth_users must be a group of at least one user with the bcrypt hash of the password; correct it',
  ],
  [
    'users left empty',
    'basic_auth_users:',
    '/web.yml:1: basic_auth_users must be a group of at least one user with the bcrypt hash of the password; correct it',
  ],
  [
    'a name with a colon',
    `basic_auth_users: { 'a:b': '${hash}' }`,
    '/web.yml:1: basic_auth_users.a:b is no name of a user, which is not empty and has no colon; correct it',
  ],
  [
    'a password instead of its hash',
    'basic_auth_users:\n  alice: hunter2',
    `/web.yml:2: basic_auth_users.alice ${isNoHash}`,
  ],
  [
    'a hash that takes minutes',
    `basic_auth_users:\n  alice: ${hash.replace('$04$', '$20$')}`,
    `/web.yml:2: basic_auth_users.alice ${isNoHash}`,
  ],
  ['a list', '- 1', '/web.yml: the file must be a group of options; correct it'],
])('%s is refused in one line', async (_what, text, line) => {
  expect(await problemsOf(text)).toEqual([line])
})
