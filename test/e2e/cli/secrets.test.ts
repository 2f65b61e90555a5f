import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { acquireLease } from '../../../src/lease/lease.js'
import { describeDatabaseError } from '../../../src/db/databaseError.js'
import { openDatabase } from '../../../src/db/database.js'
import { createTestDatabase } from '../../support/database.js'
import { startSimulator } from '../../../src/simulator/server.js'
import { envelope, startFakeService } from '../../support/fakeService.js'
import { startProgram } from '../../support/program.js'
import { systemClock } from '../../../src/runtime/clock.js'

const secret = 'hunter2-very-secret'
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-secrets-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** The test server's address with a user and password that it does not know, and other ways to get it wrong. */
function wrongUrls(): Readonly<Record<string, string>> {
  const server = new URL(inject('testServer').adminUrl)
  server.username = 'nobody'
  server.password = secret
  const away = new URL(server)
  away.port = '1'
  const unknownHost = new URL(server)
  unknownHost.hostname = 'host.invalid'
  return {
    'a wrong password': server.href,
    'a server that is not there': away.href,
    'a host that does not exist': unknownHost.href,
    'a malformed URL': `postgres://user:${secret}@:not a port/db`,
    'another scheme': `mysql://user:${secret}@127.0.0.1/db`,
  }
}

describe('a password in DATABASE_URL', () => {
  test.for([
    'a wrong password',
    'a server that is not there',
    'a host that does not exist',
    'a malformed URL',
    'another scheme',
  ])('is in no output with %s', async (what) => {
    const url = wrongUrls()[what] ?? ''
    const runs = [
      ['migrate'],
      ['query', 'select 1'],
      ['status'],
      ['doctor'],
      ['start', '--for', '1', '--allow-overload'],
    ].map(async (args) => {
      const program = startProgram(args, {
        DATABASE_URL: url,
        EXCHANGE_BASE_URL: 'http://127.0.0.1:1',
        LOG_LEVEL: 'trace',
      })
      const { stdout, stderr } = await program.finished
      expect(stdout + stderr, args.join(' ')).not.toContain(secret)
      expect((stdout + stderr).length, args.join(' ')).toBeGreaterThan(0)
    })
    await Promise.all(runs)
  })

  test.for(['a wrong password', 'a server that is not there', 'a host that does not exist'])(
    'is in no error of the library with %s',
    async (what) => {
      const url = wrongUrls()[what] ?? ''
      const lines: string[] = []
      const logger = pino({ level: 'trace' }, { write: (line: string) => lines.push(line) })
      const failure = await acquireLease(url, 'x', { logger, clock: systemClock, folder: tmpdir() }).catch(
        (error: unknown) => error as Error,
      )
      const database = openDatabase({ url })
      const refused = await database.pool.query('select 1').catch((error: unknown) => error as Error)
      await database.close()
      for (const error of [failure, refused]) {
        expect(error).toBeInstanceOf(Error)
        expect(describeDatabaseError(error)).not.toContain(secret)
        expect(`${(error as Error).name} ${(error as Error).message}`).not.toContain(secret)
      }
      expect(lines.join('')).not.toContain(secret)
    },
  )
})

describe('a login of the service, its proxy or the archive', () => {
  const login = `user:${secret}@`
  test.for([
    ['a proxy of another scheme', { EXCHANGE_PROXY: `socks5://${login}127.0.0.1:1` }],
    ['a proxy without a scheme', { EXCHANGE_PROXY: `${login}127.0.0.1:1` }],
    ['a proxy that is not there', { EXCHANGE_PROXY: `http://${login}127.0.0.1:1` }],
    ['a service of another scheme', { EXCHANGE_BASE_URL: `ftp://${login}127.0.0.1` }],
    ['a service with a malformed address', { EXCHANGE_BASE_URL: `http://user:my ${secret}@127.0.0.1:not a port` }],
    ['a service that is not there', { EXCHANGE_BASE_URL: `http://${login}127.0.0.1:1` }],
    ['an archive', { file: `archive: { bucket: market, endpoint: 'https://${login}s3.example.com' }` }],
    [
      'an address in place of options',
      { file: `exchange: http://${login}127.0.0.1\ndatabase: postgres://${login}h/d` },
    ],
  ] as const)(
    'is in no output with %s',
    async ([what, { file, ...env }]: readonly [string, Record<string, string>]) => {
      const config = join(folder, `${what}.yaml`)
      await writeFile(config, file ?? '{}')
      for (const command of [['plan'], ['doctor'], ['start', '--for', '1']]) {
        const program = startProgram([...command, '--config', config], {
          DATABASE_URL: 'postgres://127.0.0.1:1/db',
          EXCHANGE_BASE_URL: 'http://127.0.0.1:1',
          LOG_LEVEL: 'trace',
          ...env,
        })
        const { stdout, stderr } = await program.finished
        expect(stdout + stderr, command.join(' ')).not.toContain(secret)
        expect((stdout + stderr).length, command.join(' ')).toBeGreaterThan(0)
      }
    },
  )

  test('is not in what doctor says of a service that responds, and not in the database', async () => {
    const database = await createTestDatabase()
    const service = await startFakeService((_request, response) => void response.end(envelope('[]', Date.now())))
    const env = {
      DATABASE_URL: database.url,
      EXCHANGE_BASE_URL: service.url.replace('//', `//${login}`),
      SERVE_PORT: '0',
    }
    const doctor = await startProgram(['doctor', '--data-dir', folder], env).finished
    // Its lists have no row, which is an answer.
    expect(doctor.stdout).toContain('a list without a row')
    const simulator = await startSimulator({ scale: 'tiny' })
    const responding = { ...env, EXCHANGE_BASE_URL: simulator.url.replace('//', `//${login}`) }
    const start = await startProgram(['start', '--for', '5', '--data-dir', folder], responding).finished
    const noted = await database.database.db.selectFrom('recorder.service').select('base_url').execute()
    expect(noted, start.stderr).toEqual([{ base_url: simulator.url }])
    await simulator.close()
    expect(doctor.stdout + start.stdout + start.stderr).not.toContain(secret)
    await service.close()
    await database.drop()
  })
})
