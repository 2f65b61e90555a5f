import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { loadConfig } from '../../../src/config/resolve.js'
import { createMetrics } from '../../../src/runtime/metrics.js'
import { type RunningServer, startServer } from '../../../src/serve/server.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { promtool } from '../../support/installed.js'
import { freshen, settableSource } from '../../support/recorderSource.js'
import { systemClock } from '../../../src/runtime/clock.js'

let testDatabase: TestDatabase
let server: RunningServer

beforeAll(async () => {
  testDatabase = await createTestDatabase()
  const config = loadConfig({ env: {} })
  config.serve.port = 0
  const source = settableSource(Date.now())
  freshen(source, Date.now())
  source.state.phase = 'waiting'
  source.state.incidents = [{ what: 'fills', message: 'y', count: 1, since: 0, lastAt: 0, until: null }]
  const recorder = { egress: 'x', place: 'y', state: 'recording', silentMs: 0, instruments: 1, perSecond: 1 } as const
  source.state.fleet = { unowned: 0, recorders: [recorder] }
  source.state.backfills = [
    { id: '1', what: 'x', state: 'waiting', doneShare: null, reachedAt: null, etaMs: null, message: null },
  ]
  const series = { stream: 'fills', category: 'SPOT', symbol: 'X', type: '', interval: '' } as const
  await recordGap(testDatabase.database.db, { ...series, range: { from: 1, to: 2 }, reason: 'x' })
  const metrics = createMetrics({ version: 'test' })
  // This series appears with the first request.
  metrics.requests.inc({ operation: 'tickers', outcome: 'ok' })
  server = await startServer({
    config,
    clock: systemClock,
    source,
    metrics,
    databaseUrl: testDatabase.url,
    version: 'test',
    logger: pino({ level: 'silent' }),
  })
})

afterAll(async () => {
  await server?.close()
  await testDatabase?.drop()
})

async function served(path: string): Promise<string> {
  return (await fetch(server.url + path)).text()
}

function documented(file: string, pattern: RegExp): string[] {
  return [...readFileSync(file, 'utf8').matchAll(pattern)].map(([, name]) => name ?? '').toSorted()
}

test('every metric that is served is in docs/metrics.md, and the other way round', async () => {
  const text = await served('/metrics')
  const names = [...text.matchAll(/^# TYPE (market_recorder_\w+) /gm)].map(([, name]) => name ?? '').toSorted()
  expect(names).toEqual(documented('docs/metrics.md', /^\| `(market_recorder_\w+)`/gm))
})

test('every endpoint of /api is in docs/api.md, and the other way round', async () => {
  const { paths } = JSON.parse(await served('/api')) as { paths: Record<string, unknown> }
  expect(Object.keys(paths).toSorted()).toEqual(documented('docs/api.md', /^## GET (\S+)/gm))
})

test('every field of the status is in docs/api.md', async () => {
  const known = new Set(documented('docs/api.md', /^\| `([\w.[\]]+)`/gm))
  const fields = fieldsOf(JSON.parse(await served('/api/status')), '')
  expect(fields.length).toBeGreaterThan(50)
  expect(fields.filter((field) => !known.has(field))).toEqual([])
})

/** Leaves and lists as docs/api.md writes them. */
function fieldsOf(value: unknown, path: string): string[] {
  if (Array.isArray(value)) {
    const [first] = value as unknown[]
    return typeof first === 'object' && first !== null ? fieldsOf(first, `${path}[]`) : [path]
  }
  if (typeof value !== 'object' || value === null) return [path]
  return Object.entries(value).flatMap(([name, inner]) => fieldsOf(inner, path === '' ? name : `${path}.${name}`))
}

const { path: promtoolPath, hint } = promtool()

test.skipIf(promtoolPath === null)(`promtool finds nothing to complain of in /metrics${hint}`, async () => {
  const input = await served('/metrics')
  expect(execFileSync(promtoolPath ?? '', ['check', 'metrics'], { input, encoding: 'utf8' })).toBe('')
})
