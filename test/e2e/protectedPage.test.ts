import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import type { IncomingMessage } from 'node:http'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { hashSync } from 'bcryptjs'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import type { Status } from '../../src/serve/api/contract.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { type Certificate, hasOpenssl, makeCertificate } from '../support/certificate.js'
import { createEmptyDatabase, type TestDatabase } from '../support/database.js'
import { type Running, runProgram, startProgram } from '../support/program.js'
import { readRepositoryFile } from '../support/repositoryFiles.js'

if (!hasOpenssl) process.stderr.write('not tested: the protected page (there is no openssl to make a certificate)\n')

let simulator: Simulator
let database: TestDatabase
let folder: string
let certificate: Certificate
let daemon: Running
let url: string
const alice = ['alice', 'pässword: of alice'] as const
const bob = ['bob', 'bobs'] as const
// A cost that makes a check take long: what has to wait for it shows.
const hashOf = { alice: hashSync(alice[1], 11), bob: hashSync(bob[1], 11) }

beforeAll(async () => {
  if (!hasOpenssl) return
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createEmptyDatabase()
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-protected-'))
  certificate = makeCertificate()
  await writeWebConfig(hashOf)
  const settings = {
    database: { dataDir: join(folder, 'data') },
    collector: { egress: 'the protected page', allowOverload: true },
    serve: { port: 0, webConfigFile: join(folder, 'web.yml') },
  }
  await writeFile(join(folder, 'recorder.json'), JSON.stringify(settings))
  daemon = startProgram(['start', '--config', join(folder, 'recorder.json')], {
    DATABASE_URL: database.url,
    EXCHANGE_BASE_URL: simulator.url,
  })
  ;[, url = ''] = await daemon.printed(/the page is at (https:\S+?)["\s]/)
})
afterAll(async () => {
  daemon?.process.kill('SIGTERM')
  await daemon?.finished
  await simulator?.close()
  await database?.drop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

async function writeWebConfig(users: Readonly<Record<string, string>>): Promise<void> {
  await writeFile(join(folder, 'cert.pem'), certificate.cert)
  await writeFile(join(folder, 'key.pem'), certificate.key)
  const tls = { cert_file: 'cert.pem', key_file: 'key.pem' }
  await writeFile(join(folder, 'web.yml'), JSON.stringify({ tls_server_config: tls, basic_auth_users: users }))
}

// No connection is kept: each one sees the certificate of its time.
const single = new Agent({ keepAlive: false, maxCachedSessions: 0 })

async function open(path: string, credentials?: readonly [string, string], agent = single): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers =
      credentials === undefined
        ? {}
        : { authorization: `Basic ${Buffer.from(credentials.join(':')).toString('base64')}` }
    request(url + path, { ca: certificate.cert, headers, agent }, resolve)
      .on('error', reject)
      .end()
  })
}

async function get(
  path: string,
  credentials?: readonly [string, string],
  agent = single,
): Promise<{ status: number; body: string }> {
  const response = await open(path, credentials, agent)
  return { status: response.statusCode ?? 0, body: await text(response) }
}

const soon = { timeout: 60_000, interval: 100 }

describe.skipIf(!hasOpenssl)('a page with a certificate and users', () => {
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
  ])('%s is for its users alone', async (path) => {
    const { statusCode, headers } = await open(path)
    expect(statusCode).toBe(401)
    expect(headers['www-authenticate']).toMatch(/^Basic realm=/)
  })

  test('users come in with their password, others and other passwords do not', async () => {
    expect((await get('/api/status', alice)).status).toBe(200)
    expect((await get('/metrics', bob)).body).toContain('market_recorder')
    expect((await get('/', alice)).body).toContain('<!doctype html>')
    expect((await get('/api/status', ['alice', 'bobs'])).status).toBe(401)
    expect((await get('/api/status', ['mallory', alice[1]])).status).toBe(401)
  })

  test('health is for everybody, and the check of the image knows it', async () => {
    expect(await get('/healthz')).toEqual({ status: 200, body: '{"ok":true,"reasons":[],"notices":[]}' })
    const [, command = ''] = /^HEALTHCHECK .* CMD (\[[^]*?\])$/m.exec(readRepositoryFile('Dockerfile')) ?? []
    const script = (JSON.parse(command.replaceAll('\\\n', '')) as string[]).at(-1) ?? ''
    expect(script).toContain('8080')
    const checks = (port: string) =>
      spawnSync(process.execPath, ['--eval', script.replace('8080', port)], { timeout: 20_000 }).status
    expect(checks(new URL(url).port)).toBe(0)
    expect(checks('1')).toBe(1)
  })

  test('plain HTTP and what is no TLS at all is hung up on', async () => {
    for (const said of ['GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n', '\u0016\u0003\u0001 nonsense', '']) {
      const answer = await new Promise<string>((resolve) => {
        const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.end(said))
        let heard = ''
        socket.on('data', (part: Buffer) => (heard += part.toString('latin1')))
        socket.on('error', () => undefined)
        socket.on('close', () => resolve(heard))
      })
      expect(answer).not.toContain('{')
    }
    expect((await get('/healthz')).status).toBe(200)
  })

  test('guessing holds up neither the recorder nor those who have come in before', async () => {
    await get('/api/status', alice)
    // Connections are kept, so that it is the checks that are waited for, not handshakes.
    const kept = new Agent({ keepAlive: true })
    const enough = new AbortController()
    const answered: number[] = []
    const guessers = Array.from({ length: 50 }, async (_, i) => {
      for (let n = 0; !enough.signal.aborted; n += 1)
        answered.push((await get('/metrics', ['alice', `${i} ${n}`], kept)).status)
    })
    const waits: number[] = []
    for (let i = 0; i < 40; i += 1) {
      const startedMs = performance.now()
      expect((await get('/api/status', alice, kept)).status).toBe(200)
      expect((await get('/healthz', undefined, kept)).status).toBe(200)
      waits.push(performance.now() - startedMs)
    }
    enough.abort()
    await Promise.all(guessers)
    kept.destroy()
    const { process: use } = JSON.parse((await get('/api/status', alice)).body) as Status
    const longestMs = Math.round(Math.max(...waits))
    console.log(
      `${answered.length} guesses, the longest of 40 looks at status and health took ${longestMs} ms`,
      `the event loop of the recorder was late by ${use.eventLoopLagP99Ms} ms (p99 of a minute)`,
    )
    expect(new Set(answered)).toEqual(new Set([401, 429]))
    expect(answered.filter((status) => status === 429).length).toBeGreaterThan(
      answered.filter((status) => status === 401).length,
    )
  })

  test('status takes name and password from the environment or the address, and shows neither', async () => {
    await writeFile(join(folder, 'ca.pem'), certificate.cert)
    const common = { DATABASE_URL: database.url, NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') }
    const args = ['status', '--json', '--config', join(folder, 'recorder.json')]
    const [MARKET_RECORDER_USER, MARKET_RECORDER_PASSWORD] = alice
    const named = await runProgram(args, { ...common, MARKET_RECORDER_USER, MARKET_RECORDER_PASSWORD })
    expect(JSON.parse(named.stdout)).toMatchObject({
      reason: null,
      recorder: { version: expect.any(String) as string },
    })
    const address = url.replace('//', `//bob:${bob[1]}@`)
    expect(JSON.parse((await runProgram([...args, '--url', address], common)).stdout)).toMatchObject({ reason: null })
    const wrong = await runProgram([...args, '--url', url.replace('//', '//bob:hunter2@')], common)
    expect(wrong.exitCode).toBe(1)
    expect(wrong.stdout + wrong.stderr).not.toContain('hunter2')
    expect(JSON.parse(wrong.stdout)).toMatchObject({
      recorder: null,
      reason: `no recorder responds at ${url}: it refuses the name and password; set MARKET_RECORDER_USER and MARKET_RECORDER_PASSWORD`,
    })
  })

  test('another certificate and other users are in force as soon as the file says so; who is out loses open streams', async () => {
    const stream = await open('/api/events', bob)
    expect(stream.statusCode).toBe(200)
    const ended = new Promise((resolve) => stream.once('close', resolve))
    stream.on('error', () => undefined).resume()
    const before = certificate
    certificate = makeCertificate()
    const carol = ['carol', 'a new one'] as const
    await writeWebConfig({ alice: hashOf.alice, carol: hashSync(carol[1], 4) })
    await ended
    await vi.waitFor(async () => expect((await get('/api/status', carol)).status).toBe(200), soon)
    expect((await get('/api/status', bob)).status).toBe(401)
    expect((await get('/api/status', alice)).status).toBe(200)
    const renewed = certificate
    certificate = before
    await expect(get('/healthz')).rejects.toThrow(/self-signed certificate/)
    certificate = renewed
  })

  test('a file that can no longer be used changes nothing, and is told', async () => {
    await writeFile(join(folder, 'web.yml'), '')
    await daemon.printed(/protects nothing; .*; until then the page is protected as before/)
    await writeFile(join(folder, 'web.yml'), JSON.stringify({ basic_auth_users: hashOf }))
    await daemon.printed(/whether there is tls_server_config is decided at the start; restart the recorder/)
    expect((await get('/api/status')).status).toBe(401)
    expect((await get('/api/status', alice)).status).toBe(200)
  })
})

test('a file that cannot be used ends the start, in one line', async () => {
  const own = await mkdtemp(join(tmpdir(), 'market-recorder-protected-'))
  const empty = await createEmptyDatabase()
  try {
    const web = join(own, 'web.yml')
    await writeFile(web, 'basic_auth_users: { alice: hunter2 }\n')
    const serve = { port: 0, webConfigFile: web }
    await writeFile(join(own, 'recorder.json'), JSON.stringify({ serve, database: { dataDir: join(own, 'data') } }))
    const started = await runProgram(['start', '--wait', '--config', join(own, 'recorder.json')], {
      DATABASE_URL: empty.url,
      EXCHANGE_BASE_URL: 'http://127.0.0.1:1',
    })
    expect(started.exitCode).toBe(2)
    expect(started.stderr).toContain(`${web}:1: basic_auth_users.alice must be a bcrypt hash`)
    expect(started.stdout + started.stderr).not.toContain('hunter2')
  } finally {
    await empty.drop()
    await rm(own, { recursive: true, force: true })
  }
})
