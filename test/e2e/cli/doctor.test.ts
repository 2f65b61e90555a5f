import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { loadConfig, resolveConfig } from '../../../src/config/resolve.js'
import { parseYaml } from '../../../src/config/yaml.js'
import { runDoctor } from '../../../src/cli/doctor.js'
import type { Finding } from '../../../src/cli/finding.js'
import { migrateToLatest } from '../../../src/db/migrate.js'
import { noteService } from '../../../src/db/identity.js'
import { prepareStore } from '../../../src/prepareStore.js'
import { createLogger } from '../../../src/runtime/logger.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { canCreateExtension } from '../../../src/server/timescale/server.js'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../support/database.js'

let simulator: Simulator
let database: TestDatabase
beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  database = await createTestDatabase()
})
afterAll(async () => {
  await simulator.close()
  await database.drop()
})

function find(findings: readonly Finding[], what: string): Finding | undefined {
  return findings.find((finding) => finding.what === what)
}

it('a category that the service does not know any more is a warning, and the rest is looked at all the same', async () => {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  simulator.control.setQuirks({ missingCategories: [{ category: 'USDC-FUTURES', code: '40019' }] })
  const findings = await runDoctor(config, createLogger('silent'))
  expect(find(findings, 'service')?.verdict).toBe('ok')
  expect(find(findings, 'limits')?.verdict).toBe('ok')
  expect(find(findings, 'limits')?.detail).toContain('its instruments')
  expect(find(findings, 'categories')).toMatchObject({ verdict: 'warning' })
  expect(find(findings, 'categories')?.detail).toContain('USDC-FUTURES: unknown-category')
  expect(find(findings, 'database')?.verdict).toBe('ok')
})

it('a page of the proxy in front of the service is told as that', async () => {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  simulator.control.setFaults([{ kind: 'browserCheck' }])
  const findings = await runDoctor(config, createLogger('silent'))
  expect(find(findings, 'service')).toMatchObject({ verdict: 'failure' })
  expect(find(findings, 'service')?.detail).toContain('Checking your browser')
})

it('the plan is that of all addresses, and a folder that is not there yet has the room of the one above it', async () => {
  const settings = `
collector: { egresses: 64 }
database: { dataDir: /no-such-folder/of/ours }
streams: { orderBooks: { everySeconds: 5, select: { busiest: all } } }`
  const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
  const findings = await runDoctor(resolveConfig(env, parseYaml(settings, 'a test')), createLogger('silent'))
  expect(find(findings, 'service')?.verdict).toBe('failure')
  expect(find(findings, 'limits')?.verdict).toBe('ok')
  expect(find(findings, 'disk')?.detail).toContain('free at /no-such-folder/of/ours')
})

it('a port of the page that something else listens on is a failure, as start ends there', async () => {
  const { port } = new URL(simulator.url)
  const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
  const page = async (settings: string) =>
    find(await runDoctor(resolveConfig(env, parseYaml(settings, 'a test')), createLogger('silent')), 'page')
  expect(await page(`serve: { port: ${port} }`)).toEqual({
    what: 'page',
    verdict: 'failure',
    detail: `cannot serve the page on 127.0.0.1:${port}: the port is taken; set serve.port to another, or to 0 for any`,
  })
  expect(await page('serve: { port: 0 }')).toMatchObject({ verdict: 'ok' })
  expect(await page('serve: { enabled: false }')).toMatchObject({ verdict: 'ok' })
})

it('a server whose locks do not suffice for the chunks of a table is a warning', async () => {
  const own = await createTestDatabase()
  onTestFinished(() => own.drop())
  const config = loadConfig({ env: { DATABASE_URL: own.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' } })
  const locks = async () => find(await runDoctor(config, createLogger('silent')), 'locks')
  expect(await locks()).toMatchObject({ verdict: 'ok' })
  await sql`do $$ begin
    execute 'create table market.many (ts timestamptz)';
    for part in 1..150 loop
      execute format('create table market.many_%s () inherits (market.many)', part);
      for place in 1..30 loop execute format('create index on market.many_%s (ts)', part); end loop;
    end loop;
  end $$`.execute(own.database.db)
  expect((await locks())?.detail).toContain('takes 4650 locks')
  expect((await locks())?.verdict).toBe('warning')
  expect((await locks())?.detail).toContain('max_locks_per_transaction')
})

it('a database that start still has to set up is a warning, also when only the features of TimescaleDB are missing', async () => {
  const empty = await createEmptyDatabase()
  try {
    const { db } = empty.database
    const config = loadConfig({ env: { DATABASE_URL: empty.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' } })
    const silent = createLogger('silent')
    const schema = async () => find(await runDoctor(config, silent), 'schema')
    expect(await schema()).toMatchObject({ verdict: 'warning' })
    expect((await schema())?.detail).toMatch(/^\d+ changes are pending; "start" makes them/)
    const mayCreate = await canCreateExtension(db)
    const told = find(await runDoctor(config, silent), 'database')?.detail
    expect(told).toContain(mayCreate ? '"start" creates the extension' : 'plain tables')
    await migrateToLatest(empty.database)
    expect(await schema()).toMatchObject({ verdict: mayCreate ? 'warning' : 'ok' })
    await prepareStore(empty, config, silent)
    expect(await schema()).toMatchObject({ verdict: 'ok', detail: 'up to date' })
  } finally {
    await empty.drop()
  }
})

it('a malformed address of the database is a finding about the database alone', async () => {
  const config = loadConfig({
    env: { DATABASE_URL: 'postgres://user:pass#word@127.0.0.1:5432/market', EXCHANGE_BASE_URL: 'http://127.0.0.1:9' },
  })
  const findings = await runDoctor(config, createLogger('silent'))
  expect(find(findings, 'database')).toMatchObject({ verdict: 'failure' })
  expect(find(findings, 'database')?.detail).toContain('malformed')
  expect(find(findings, 'disk')?.detail).toContain('free at')
})

it('a database that is out of reach is a finding with advice', async () => {
  const env = { DATABASE_URL: 'postgres://user:secret@127.0.0.1:1/market', EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
  const detail = find(await runDoctor(loadConfig({ env }), createLogger('silent')), 'database')?.detail
  expect(detail).toMatch(/^connect ECONNREFUSED 127\.0\.0\.1:1; nothing listens there; start the server/)
})

it.each([
  ['https://api.example.com', 'failure', /the configuration names http:.*--accept-new-url if that service has moved$/],
  ['http://127.0.0.1:8', undefined, undefined],
])('what start refuses in a database that holds %s is a finding', async (held, verdict, line) => {
  const { db } = database.database
  await sql`truncate recorder.service`.execute(db)
  await noteService(db, held)
  const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://exchange.invalid' }
  if (verdict === undefined) env.EXCHANGE_BASE_URL = 'http://127.0.0.1:9'
  const finding = find(await runDoctor(loadConfig({ env }), createLogger('silent')), 'held service')
  expect(finding?.verdict).toBe(verdict)
  if (line !== undefined) expect(finding?.detail).toMatch(line)
  expect(await db.selectFrom('recorder.service').select('base_url').execute()).toEqual([{ base_url: held }])
})

it('an archive that cannot be written, or is that of another database, is a failure', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-doctor-'))
  try {
    await writeFile(join(folder, 'file'), '')
    const archive = async (place: string) => {
      const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
      const settings = parseYaml(`archive: { folder: ${join(folder, place)} }`, 'a test')
      return find(await runDoctor(resolveConfig(env, settings), createLogger('silent')), 'archive')
    }
    expect(await archive('new')).toMatchObject({ verdict: 'ok' })
    expect(await archive('file')).toMatchObject({ verdict: 'failure' })
    expect((await archive('file'))?.detail).toMatch(/set archive\.folder to a folder that can be used$/)
    await mkdir(join(folder, 'taken'))
    const owner = { service: 'http://elsewhere.test', database: { id: 'another', place: 'another' } }
    await writeFile(join(folder, 'taken', 'owner.json'), JSON.stringify(owner))
    expect(await archive('taken')).toMatchObject({ verdict: 'failure' })
    expect((await archive('taken'))?.detail).toContain('belongs to another database')
  } finally {
    await rm(folder, { recursive: true })
  }
})
