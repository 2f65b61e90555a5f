import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/resolve.js'

const secret = 'GeheimesWort'
const folder = mkdtempSync(join(tmpdir(), 'config-secrets-'))
const file = join(folder, 'recorder.yaml')
afterAll(() => rmSync(folder, { recursive: true }))

/** Everything that an error says, with its causes. */
function said(env: Record<string, string>): string {
  try {
    loadConfig({ file, env })
  } catch (error) {
    return inspect(error)
  }
  return ''
}

test.each([
  `serve:\n  password: *${secret}123456`,
  `serve:\n  password: |${secret}123456`,
  `serve:\n  password: >${secret}123456`,
  `serve:\n  password: "${secret}\\${secret}123456"`,
  `serve:\n  password: ${secret}: ${secret}`,
  `serve:\n  password: &${secret}`,
  `serve:\n  password: !${secret}`,
  `serve:\n  password: %${secret}`,
  `serve:\n  password: @${secret}`,
  `serve:\n  password: "${secret}`,
  `serve:\n  password: [${secret}`,
  `serve:\n  password: {${secret}: 1, ${secret}: 2}`,
  `serve: ${secret}`,
  `%${secret} ${secret}\n---\n{`,
  `SERVE_PASSWORD=${secret}`,
  `SERVE_PASSWORD=${secret}\nDATABASE_URL=postgres://u:${secret}@h/db`,
  `SERVE_PASSWORD=${secret}: 1`,
  `database:\n  postgres://u:${secret}@h/db: x`,
  `database: postgres://u:${secret}@h/db`,
  `database: [postgres://u:${secret}@h/db]`,
  `exchange: SERVE_PASSWORD=${secret}`,
  `? [a, ${secret}]\n: 1`,
  `? {password: ${secret}}\n: 1`,
])('a secret at a wrong place is in no error: %j', (yaml) => {
  writeFileSync(file, yaml)
  expect(said({})).toMatch(/recorder\.yaml.*; /)
  expect(said({})).not.toContain(secret)
})

test.each(['DATABASE_URL_FILE', 'SERVE_PASSWORD_FILE', 'EXCHANGE_PROXY_FILE'])(
  'a secret in place of the path in %s is in no error',
  (variable) => {
    writeFileSync(file, '')
    for (const text of [secret, `postgres://u:${secret}@h/db`, secret.repeat(1_000)]) {
      expect(said({ [variable]: text })).toContain(`${variable}: `)
      expect(said({ [variable]: text })).not.toContain(secret)
    }
  },
)
