import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createEmptyDatabase, type TestDatabase } from '../support/database.js'
import { type Running, runProgram, startProgram } from '../support/program.js'
import { readRepositoryFile } from '../support/repositoryFiles.js'

let simulator: Simulator
let database: TestDatabase
let folder: string
let daemon: Running
let url: string
const password = 'pässword: sixteen'

beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createEmptyDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-protected-'))
  const settings = {
    database: { dataDir: join(folder, 'data') },
    collector: { egress: 'the protected page', allowOverload: true },
    serve: { port: 0, host: '0.0.0.0' },
  }
  await writeFile(join(folder, 'recorder.json'), JSON.stringify(settings))
  await writeFile(join(folder, 'password'), `${password}\n`)
  daemon = startProgram(['start', '--config', join(folder, 'recorder.json')], {
    DATABASE_URL: database.url,
    EXCHANGE_BASE_URL: simulator.url,
    SERVE_PASSWORD_FILE: join(folder, 'password'),
  })
  const [, printed = ''] = await daemon.printed(/the page is at (http:\S+?)["\s]/)
  url = printed.replace('0.0.0.0', '127.0.0.1')
})
afterAll(async () => {
  daemon?.process.kill('SIGTERM')
  await daemon?.finished
  await simulator?.close()
  await database?.drop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

async function get(path: string, credentials?: string): Promise<Response> {
  const authorization = `Basic ${Buffer.from(credentials ?? '').toString('base64')}`
  return fetch(url + path, credentials === undefined ? {} : { headers: { authorization } })
}

describe('a page with a password', () => {
  test.each([
    '/',
    '/metrics',
    '/readyz',
    '/api',
    '/api/status',
    '/api/events',
    '/assets/x',
    '/healthz/',
    '//healthz',
    '/nothing',
  ])('%s needs it', async (path) => {
    const { status, headers } = await get(path)
    expect(status).toBe(401)
    expect(headers.get('www-authenticate')).toMatch(/^Basic realm=/)
  })

  test('opens with it, and with no other', async () => {
    expect((await get('/api/status', `recorder:${password}`)).status).toBe(200)
    expect(await (await get('/metrics', `recorder:${password}`)).text()).toContain('market_recorder')
    expect(await (await get('/', `recorder:${password}`)).text()).toContain('<!doctype html>')
    for (const wrong of [`recorder:${password}x`, 'recorder:', `mallory:${password}`, password, ''])
      expect((await get('/api/status', wrong)).status).toBe(401)
  })

  test('health is for everybody, and the check of the image knows it', async () => {
    expect(await (await get('/healthz')).text()).toContain('"ok":true')
    const [, command = ''] = /^HEALTHCHECK .* CMD (\[[^]*?\])$/m.exec(readRepositoryFile('Dockerfile')) ?? []
    const script = (JSON.parse(command.replaceAll('\\\n', '')) as string[]).at(-1) ?? ''
    expect(script).toContain('8080')
    const checks = (port: string) =>
      spawnSync(process.execPath, ['--eval', script.replace('8080', port)], { timeout: 120_000 }).status
    expect(checks(new URL(url).port)).toBe(0)
    expect(checks('1')).toBe(1)
  })

  test('status takes it from the environment or the address, and shows it nowhere', async () => {
    const common = { DATABASE_URL: database.url }
    const args = ['status', '--json', '--config', join(folder, 'recorder.json')]
    const statusBy = async (extra: readonly string[], env: Readonly<Record<string, string>>) => {
      // A busy recorder may not respond in the time that the command waits.
      const ended = await vi.waitUntil(
        async () => {
          const run = await runProgram([...args, ...extra], { ...common, ...env })
          return run.stdout.includes('timeout') ? null : run
        },
        { timeout: 120_000 },
      )
      return { ...ended, said: JSON.parse(ended.stdout) as unknown }
    }
    const named = await statusBy([], { SERVE_PASSWORD: password })
    expect(named.said).toMatchObject({ reason: null, recorder: { version: expect.any(String) as string } })
    const withCredentials = (text: string) => url.replace('//', `//recorder:${text}@`)
    expect((await statusBy(['--url', withCredentials(password)], {})).said).toMatchObject({ reason: null })
    const wrong = await statusBy(['--url', withCredentials('hunter2')], {})
    expect(wrong.exitCode).toBe(1)
    expect(wrong.stdout + wrong.stderr).not.toContain('hunter2')
    expect(wrong.said).toMatchObject({
      recorder: null,
      reason: `no recorder responds at ${url}: it refuses the password; set SERVE_PASSWORD or SERVE_PASSWORD_FILE`,
    })
  })
})

test.each([
  [
    'that is too short',
    { host: '127.0.0.1' },
    'short',
    /SERVE_PASSWORD: serve\.password must have at least 16 characters; correct/,
  ],
  ['that is missing where others reach it', { host: '0.0.0.0' }, '', /listen on 0\.0\.0\.0 without a password; set/],
])('a password %s ends the start, in one line', async (_what, serve, given, line) => {
  const own = await mkdtemp(join(tmpdir(), 'market-recorder-protected-'))
  const empty = await createEmptyDatabase()
  try {
    const settings = { serve: { port: 0, ...serve }, database: { dataDir: join(own, 'data') } }
    await writeFile(join(own, 'recorder.json'), JSON.stringify(settings))
    const started = await runProgram(['start', '--config', join(own, 'recorder.json')], {
      DATABASE_URL: empty.url,
      EXCHANGE_BASE_URL: simulator.url,
      SERVE_PASSWORD: given,
    })
    expect(started.exitCode).toBe(2)
    expect(started.stderr).toMatch(line)
    expect(started.stderr).not.toContain('"short')
  } finally {
    await empty.drop()
    await rm(own, { recursive: true, force: true })
  }
})
