import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../src/app.js'
import { loadConfig } from '../../src/config/resolve.js'
import { createLogger } from '../../src/runtime/logger.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { envelope, type FakeService, startFakeService } from '../support/fakeService.js'
import { prometheus as findPrometheus } from '../support/installed.js'
import { type Prometheus, startPrometheus } from '../support/prometheus.js'
import { type Running, runProgram, startProgram } from '../support/program.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'

/** What is sent instead of an honest response; null for the honest one. */
type Lie = (url: URL) => readonly [status: number, body: string, headers?: Record<string, string>] | null

const page = (text: string) => `<html><body>${text}</body></html>`
const failure = (code: string) => JSON.stringify({ code, msg: 'no', requestTime: Date.now(), data: null })
const success = (data: string) => envelope(data, Date.now())

/** Ways in which a recorder records nothing, or nothing of a category, with what the line must say of what to do. */
const ways: readonly (readonly [what: string, says: RegExp, lie: Lie])[] = [
  ['a host without these paths', /HTTP 404 .*exchange\.baseUrl is the address/, () => [404, page('Not Found')]],
  ['a path that the service does not have', /40404 .*exchange\.baseUrl is the address/, () => [400, failure('40404')]],
  ['a page that wants a login', /HTML instead of JSON .*check that exchange\.baseUrl/, () => [200, page('Log in')]],
  ['a proxy that wants a browser', /403 .*open exchange\.baseUrl/, () => [403, page('Checking your browser')]],
  ['an address that is refused', /403 .*admits this IP address/, () => [403, 'denied']],
  ['too many requests, for ever', /429.*lower exchange\.limits/, () => [429, '']],
  ['a redirect', /redirect to .*check that exchange\.baseUrl/, () => [302, '', { location: 'https://example.com/' }]],
  ['lists without a row', /a list without a row; check that exchange\.baseUrl/, () => [200, success('[]')]],
  ['null for everything', /malformed.*check that exchange\.baseUrl/, () => [200, success('null')]],
  [
    'rows that nobody understands',
    /none of 2 rows can be understood.*recorder\.rejected_row/,
    () => [200, success('[{"a":1},{"b":2}]')],
  ],
  ['a retired version', /30032.*install a newer/, () => [400, failure('30032')]],
  ['an outage with a code of its own', /503.*should recover/, () => [503, failure('88888')]],
  [
    'a category that is gone',
    /COIN-FUTURES: nothing usable .*40034.*take it out of the categories/,
    ({ searchParams }) => (searchParams.get('category') === 'COIN-FUTURES' ? [400, failure('40034')] : null),
  ],
  [
    'instruments that nobody knows',
    /(fills|order_books|candles) of .*40034.*check the category and symbol/,
    ({ searchParams }) => (searchParams.has('symbol') ? [400, failure('40034')] : null),
  ],
]

/** A busy machine needs more than the minute in which everybody should know. */
const patience = { timeout: 900_000, interval: 250 }
const { path: prometheusPath, hint } = findPrometheus()

interface Way {
  readonly service: FakeService
  readonly database: TestDatabase
  readonly recorder: Recorder
}

let folder: string
let simulator: SimulatorProcess
let prometheus: Prometheus | null = null
const running = new Map<string, Way>()

function lyingService(lie: Lie): Promise<FakeService> {
  return startFakeService((request, response, url) => {
    const lies = lie(url)
    if (lies !== null) {
      response.writeHead(lies[0], { ...lies[2] }).end(lies[1])
      return
    }
    const honest = http.get(new URL(request.url ?? '', simulator.url), ({ statusCode, headers }) => {
      response.writeHead(statusCode ?? 500, headers)
    })
    honest.on('response', (incoming) => void incoming.pipe(response))
    honest.on('error', () => response.destroy())
  })
}

async function startWay(what: string, lie: Lie): Promise<void> {
  const [service, database] = await Promise.all([lyingService(lie), createTestDatabase()])
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: service.url } })
  config.database.dataDir = join(folder, what)
  config.serve.port = 0
  config.collector.egress = what
  const recorder = await startRecorder(config, createLogger('silent'))
  running.set(what, { service, database, recorder })
}

const urlOf = (what: string) => running.get(what)?.recorder.pageUrl ?? ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-nothing-'))
  simulator = await startSimulatorProcess(['--scale', 'tiny'])
  await Promise.all(ways.map(([what, , lie]) => startWay(what, lie)))
  if (prometheusPath !== null) {
    prometheus = await startPrometheus(prometheusPath, {
      rules: await readFile('config/prometheus/alerts.yml', 'utf8'),
      job: 'market-recorder',
      instances: ways.map(([what]) => new URL(urlOf(what)).host),
      every: ['15s', '15s'],
    })
  }
})

afterAll(async () => {
  await prometheus?.close()
  await Promise.all(
    [...running.values()].map(async ({ recorder, service, database }) => {
      await recorder.stop()
      await service.close()
      await database.drop()
    }),
  )
  await simulator.close()
  await rm(folder, { recursive: true, force: true })
})

async function reasons(url: string): Promise<readonly string[]> {
  const response = await fetch(`${url}/readyz`)
  const { ok, reasons: found } = (await response.json()) as { ok: boolean; reasons: string[] }
  expect(response.status).toBe(ok ? 200 : 503)
  return found
}

/** Resolves when /readyz says so, and the alert fires. */
async function seen(what: string, says: RegExp): Promise<void> {
  const url = urlOf(what)
  await vi.waitFor(async () => expect(await reasons(url)).toContainEqual(expect.stringMatching(says)), patience)
  if (prometheus === null) return
  const { host } = new URL(url)
  await vi.waitFor(async () => {
    const firing = (await prometheus?.firing()) ?? []
    expect(firing.some(({ name, instance }) => name === 'StreamFailing' && instance === host)).toBe(true)
  }, patience)
}

// The first one waits for most of a minute, and so do the others meanwhile.
describe(`everybody sees${hint}`, () => {
  test.each(ways)('%s', async (what, says) => {
    await seen(what, says)
    // A busy recorder may not respond in the time that the command waits.
    await vi.waitFor(async () => {
      const status = await runProgram(['status', '--url', urlOf(what)])
      expect(status.exitCode).toBe(1)
      expect(status.stdout).toMatch(/^ {2}! .*nothing usable for/m)
      expect(status.stdout).toMatch(says)
      expect(status.stdout).toMatch(/^(instruments|tickers|fills|order_books|candles) +failing/m)
    }, patience)
  })
})

describe('the program', () => {
  let program: Running | undefined
  let database: TestDatabase
  let place: string
  beforeEach(async () => {
    database = await createTestDatabase()
    place = await mkdtemp(join(folder, 'program-'))
  })
  afterEach(async () => {
    program?.process.kill('SIGTERM')
    await program?.finished
    await database.drop()
  })

  /** Starts the recorder with a configuration of a user, over a service that may not exist there. */
  async function start(baseUrl: string): Promise<string> {
    const file = join(place, 'recorder.yaml')
    await writeFile(file, JSON.stringify({ exchange: { baseUrl }, serve: { port: 0 } }))
    program = startProgram(['start', '--wait', '--config', file, '--data-dir', place], {
      DATABASE_URL: database.url,
    })
    const [, url = ''] = await program.printed(/the page is at (http:\/\/[\d.:]+)/)
    return url
  }

  test('says that the address has a path too many, and goes on once paths exist', async () => {
    let isMissing = true
    const service = await lyingService(() => (isMissing ? [400, failure('40404')] : null))
    try {
      const url = await start(service.url)
      const says = /nothing usable for .*40404.*exchange\.baseUrl is the address of the service alone/
      await expect.poll(() => reasons(url), patience).toContainEqual(expect.stringMatching(says))
      expect((await runProgram(['status', '--url', url])).exitCode).toBe(1)
      isMissing = false
      await expect.poll(() => reasons(url), patience).toEqual([])
      const { rows } = await database.database.pool.query('select from market.tickers limit 1')
      expect(rows).toHaveLength(1)
    } finally {
      await service.close()
    }
  })
})
