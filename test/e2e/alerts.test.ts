import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadConfig } from '../../src/config.js'
import { createMetrics, type RecorderMetrics } from '../../src/runtime/metrics.js'
import { type RunningServer, startServer } from '../../src/serve/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { prometheus, promtool } from '../support/installed.js'
import { freshen, settableSource } from '../support/recorderSource.js'
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.js'

const rules = 'config/prometheus/alerts.yml'
const { path: promtoolPath, hint: promtoolHint } = promtool()
const { path: prometheusPath, hint: prometheusHint } = prometheus()

describe.skipIf(promtoolPath === null)(`the alert rules${promtoolHint}`, () => {
  const check = (...args: string[]) => execFileSync(promtoolPath ?? '', args, { encoding: 'utf8' })

  test('are valid, as is the scrape file', () => {
    expect(check('check', 'rules', rules)).toContain('SUCCESS')
    expect(check('check', 'config', 'config/prometheus/prometheus.yml')).toContain('SUCCESS')
  })

  test('fire and keep silent as their own tests say', () => {
    expect(check('test', 'rules', 'config/prometheus/alerts.test.yml')).toContain('SUCCESS')
  })

  test('speak only of metrics that there are', async () => {
    const documented = await readFile('docs/metrics.md', 'utf8')
    const named = (await readFile(rules, 'utf8')).match(/market_recorder_\w+/g) ?? []
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((name) => !documented.includes(`\`${name}\``))).toEqual([])
  })
})

/** A real Prometheus scrapes a recorder's server every second; what each alert is about is broken, one after the other. */
describe.skipIf(prometheusPath === null)(`Prometheus${prometheusHint}`, () => {
  let testDatabase: TestDatabase
  let proxy: TcpProxy
  let metrics: RecorderMetrics
  let server: RunningServer
  let folder: string
  let process: ChildProcess
  let prometheusUrl: string
  const source = settableSource(Date.now())
  const keepFresh = setInterval(() => freshen(source, Date.now()), 500)

  beforeAll(async () => {
    testDatabase = await createTestDatabase()
    proxy = await startTcpProxy(testDatabase.url)
    freshen(source, Date.now())
    metrics = createMetrics({ version: 'test' })
    metrics.requests.inc({ operation: 'tickers', outcome: 'ok' })
    metrics.requests.inc({ operation: 'tickers', outcome: 'rate-limited' }, 0)
    const config = loadConfig({ env: {} })
    config.serve.port = 0
    const databaseUrl = proxy.through(testDatabase.url)
    server = await startServer({ config, source, metrics, databaseUrl, version: '', logger: pino({ level: 'silent' }) })
    folder = await mkdtemp(join(tmpdir(), 'market-recorder-prometheus-'))
    await configure()
    prometheusUrl = await startPrometheus()
  })

  afterAll(async () => {
    clearInterval(keepFresh)
    process?.kill('SIGTERM')
    if (process?.exitCode === null) await once(process, 'exit')
    await server?.close()
    await proxy?.close()
    await testDatabase?.drop()
    if (folder) await rm(folder, { recursive: true, force: true })
  })

  /** The project's own rules; only how long a cause must last is made short. */
  async function configure(): Promise<void> {
    const quick = (await readFile(rules, 'utf8')).replaceAll(/for: \d+[sm]/g, 'for: 1s')
    await writeFile(join(folder, 'alerts.yml'), quick)
    const { host } = new URL(server.url)
    await writeFile(
      join(folder, 'prometheus.yml'),
      `global: { scrape_interval: 1s, evaluation_interval: 1s }
rule_files: [alerts.yml]
scrape_configs:
  - job_name: market-recorder
    static_configs: [{ targets: ['${host}'] }]
`,
    )
  }

  async function startPrometheus(): Promise<string> {
    process = spawn(
      prometheusPath ?? '',
      [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        '--web.listen-address=127.0.0.1:0',
      ],
      { stdio: ['ignore', 'ignore', 'pipe'] },
    )
    let log = ''
    return new Promise((resolve, reject) => {
      process.stderr?.on('data', (chunk: Buffer) => {
        log += chunk.toString()
        const address = /msg="Listening on" address=(\S+)/.exec(log)?.[1]
        if (address !== undefined) resolve(`http://${address}`)
      })
      process.on('exit', () => reject(new Error(`prometheus ended:\n${log}`)))
    })
  }

  async function ask<Answer>(path: string): Promise<Answer> {
    const response = await fetch(`${prometheusUrl}/api/v1/${path}`)
    return ((await response.json()) as { data: Answer }).data
  }

  async function value(query: string): Promise<string | undefined> {
    const { result } = await ask<{ result: { value: [number, string] }[] }>(`query?query=${encodeURIComponent(query)}`)
    return result[0]?.value[1]
  }

  async function firing(): Promise<string[]> {
    const { alerts } = await ask<{ alerts: { state: string; labels: { alertname: string } }[] }>('alerts')
    return [...new Set(alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname))]
  }

  const fires = (name: string) => expect.poll(firing, { timeout: 40_000, interval: 500 }).toContain(name)
  const ends = (name: string) => expect.poll(firing, { timeout: 40_000, interval: 500 }).not.toContain(name)

  test('scrapes without a complaint, and nothing fires while all is well', async () => {
    const scrapes = async () => Number(await value('sum_over_time(up[5m])'))
    await expect.poll(scrapes, { timeout: 60_000, interval: 500 }).toBeGreaterThanOrEqual(20)
    expect(await value('min_over_time(up[5m])')).toBe('1')
    const { activeTargets } = await ask<{ activeTargets: { lastError: string }[] }>('targets')
    expect(activeTargets.map(({ lastError }) => lastError)).toEqual([''])
    expect(await firing()).toEqual([])
  })

  test('the database is away', async () => {
    await proxy.refuse()
    await fires('DatabaseUnreachable')
    await fires('RecorderNotReady')
    await proxy.restore()
    await ends('DatabaseUnreachable')
  })

  test('a stream is stale', async () => {
    clearInterval(keepFresh)
    source.state.stats.fills.lastStoredAt = Date.now() - 3_600_000
    await fires('StreamStale')
    freshen(source, Date.now() + 600_000)
    await ends('StreamStale')
  })

  test('the budget is exhausted', async () => {
    const { waiting } = source.state.budget
    source.state.budget.waiting = { ...waiting, live: { count: 500, oldestWaitMs: 45_000 } }
    await fires('BudgetExhausted')
    source.state.budget.waiting = waiting
    await ends('BudgetExhausted')
  })

  test('the service rejects requests', async () => {
    metrics.requests.inc({ operation: 'tickers', outcome: 'rate-limited' })
    await fires('RequestsRejected')
  })

  test('the spool fills up, and drops', async () => {
    source.state.spool.since = Date.now() - 400_000
    source.state.spool.bytes = 700_000
    source.state.stats.candles.rowsDropped = 50
    await fires('SpoolInUse')
    await fires('SpoolFilling')
    await fires('RowsDropped')
    source.state.spool.since = null
    source.state.spool.bytes = 0
    await ends('SpoolFilling')
  })

  test('a hole is found', async () => {
    source.state.stats.fills.gapsFound += 1
    await fires('GapFound')
  })

  test('rows are rejected', async () => {
    source.state.stats.tickers.rowsRejected += 1
    await fires('RowsRejected')
  })

  test('a backfill fails', async () => {
    const values = { doneShare: null, reachedAt: null, etaMs: null, message: 'x' }
    source.state.backfills = [{ id: '1', what: 'x', state: 'failed', ...values }]
    await fires('BackfillFailed')
  })

  test('the recorder is gone', async () => {
    await server.close()
    await fires('RecorderDown')
  })
})
