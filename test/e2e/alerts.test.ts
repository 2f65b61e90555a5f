import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RecorderDatabase } from '../../src/db/database.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { prometheus as findPrometheus, promtool } from '../support/installed.js'
import { lastingPort } from '../../src/server/embedded/server.js'
import { type FiringAlert, type Prometheus, startPrometheus } from '../support/prometheus.js'
import { type Running, startProgram } from '../support/program.js'
import { startTcpProxy, type TcpProxy } from '../support/tcpProxy.js'

const rules = 'config/prometheus/alerts.yml'
const { path: promtoolPath, hint: promtoolHint } = promtool()
const { path: prometheusPath, hint: prometheusHint } = findPrometheus()

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

/**
 * Daemons as users start them, each over a service and a database of its own, and a real Prometheus that scrapes them. What
 * every alert is about is made to happen to one of them: one loses its database and one is blocked by the service, which
 * would hide everything else, and the third takes the rest.
 */
describe.skipIf(prometheusPath === null)(`Prometheus over daemons${prometheusHint}`, () => {
  let folder: string
  let recorder: Daemon
  let cutOff: Daemon
  let blocked: Daemon
  let prometheus: Prometheus

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'market-recorder-alerts-'))
    ;[recorder, cutOff, blocked] = await Promise.all([
      startDaemon(folder, 'recorder'),
      startDaemon(folder, 'cut off'),
      startDaemon(folder, 'blocked'),
    ])
    prometheus = await startPrometheus(prometheusPath ?? '', {
      rules: quick(await readFile(rules, 'utf8')),
      job: 'market-recorder',
      instances: [recorder, cutOff, blocked].map(({ instance }) => instance),
    })
  })

  afterAll(async () => {
    await prometheus?.close()
    for (const daemon of [recorder, cutOff, blocked]) await daemon?.close()
    if (folder) await rm(folder, { recursive: true, force: true })
  })

  const firing = async ({ instance }: Daemon, name: string): Promise<FiringAlert[]> =>
    (await prometheus.firing()).filter((alert) => alert.instance === instance && alert.name === name)
  const times = { timeout: 900_000, interval: 100 }
  /** Resolves when it fires with these labels. */
  async function fires(daemon: Daemon, name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    const alert: unknown = expect.objectContaining({ labels: expect.objectContaining(labels) as unknown })
    await expect.poll(() => firing(daemon, name), times).toContainEqual(alert)
  }
  const ends = (daemon: Daemon, name: string) => expect.poll(() => firing(daemon, name), times).toEqual([])

  test('scrapes without a complaint, and nothing fires while all is well', async () => {
    const scrapes = async () => (await prometheus.values('sum_over_time(up[5m])')).map(({ value }) => value >= 8)
    await expect.poll(scrapes, times).toEqual([true, true, true])
    await expect.poll(() => prometheus.targetErrors(), times).toEqual(['', '', ''])
    await expect.poll(() => prometheus.firing(), times).toEqual([])
  })

  test('promtool finds nothing wrong with the metrics, and all of them are documented', async ({ skip }) => {
    const text = await (await fetch(`http://${recorder.instance}/metrics`)).text()
    const documented = await readFile('docs/metrics.md', 'utf8')
    const names = [...text.matchAll(/^# TYPE (market_recorder_\w+) /gm)].map(([, name]) => name ?? '')
    expect(names.length).toBeGreaterThan(40)
    expect(names.filter((name) => !documented.includes(`\`${name}\``))).toEqual([])
    if (promtoolPath === null) skip(promtoolHint)
    expect(execFileSync(promtoolPath ?? '', ['check', 'metrics'], { input: text, encoding: 'utf8' })).toBe('')
  })

  /** They begin together: some alerts wait for half a minute. */
  describe('fires', () => {
    let backfill: Running

    beforeAll(async () => {
      const { simulator, configFile } = recorder
      simulator.control.addFault({ kind: 'http', status: 500, operations: ['rpi-symbols'] })
      simulator.control.addFault({ kind: 'errorCode', code: '400172', operations: ['candles', 'history-candles'] })
      simulator.control.setQuirks({ brokenRows: { operations: ['tickers'], kind: 'nonsense' } })
      const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1H', '--from', '2026-01-01']
      backfill = startProgram(['backfill', ...what, '--to', '2026-01-02', '--config', configFile])
      for (const [category, symbol] of busy) simulator.control.list({ category, symbol, launchTime: Date.now() })
      blocked.simulator.control.addFault({ kind: 'block', count: 1 })
      await cutOff.proxy.refuse()
    })
    afterAll(async () => {
      backfill?.process.kill('SIGTERM')
      await backfill?.finished
    })

    test('RequestsFailing: the service answers one operation with errors', () =>
      fires(recorder, 'RequestsFailing', { operation: 'rpi-symbols' }))

    test('RequestsRejected: the service blocks the address', () => fires(blocked, 'RequestsRejected'))

    test('DatabaseUnreachable, RecorderNotReady: the database is away', async () => {
      await fires(cutOff, 'DatabaseUnreachable')
      await fires(cutOff, 'RecorderNotReady')
    })

    test('RowsRejected: a row of each page makes no sense', () =>
      fires(recorder, 'RowsRejected', { stream: 'tickers' }))

    test('GapFound: more fills happen from one response to the next than the service shows', () =>
      fires(recorder, 'GapFound', { stream: 'fills' }))

    test('BackfillFailed: the service refuses the candles that are asked for', () => fires(recorder, 'BackfillFailed'))

    test('EventLoopLag: the process gets only a part of the processor', async () => {
      const ending = new AbortController()
      const stutter = (async () => {
        while (!ending.signal.aborted) {
          recorder.program.process.kill('SIGSTOP')
          await sleep(400)
          recorder.program.process.kill('SIGCONT')
          await sleep(100)
        }
      })()
      try {
        await fires(recorder, 'EventLoopLag')
      } finally {
        ending.abort()
        await stutter
      }
    })

    test('RequestsRejected: one rejection suffices', async () => {
      await ends(recorder, 'RequestsRejected')
      recorder.simulator.control.addFault({ kind: 'http', status: 429, operations: ['tickers'], count: 1 })
      await fires(recorder, 'RequestsRejected', { operation: 'tickers' })
    })

    test('BudgetExhausted: requests wait for the end of the block', () => fires(blocked, 'BudgetExhausted'))

    test('SpoolInUse, SpoolFilling, RowsDropped: the database stays away until the spool is full', async () => {
      await cutOff.proxy.refuse()
      await fires(cutOff, 'SpoolInUse')
      await cutOff.restart(bigBooks)
      await fires(cutOff, 'SpoolFilling')
      await fires(cutOff, 'RowsDropped')
      await cutOff.restart(fewBooks)
      await cutOff.proxy.restore()
      for (const name of ['DatabaseUnreachable', 'SpoolInUse', 'SpoolFilling']) await ends(cutOff, name)
    }, 5_400_000)

    test('StreamFailing: nothing usable comes for a stream', () =>
      fires(recorder, 'StreamFailing', { stream: 'rpi_symbols' }))

    test('StreamStale: the operation that fails has failed for long', () =>
      fires(recorder, 'StreamStale', { stream: 'rpi_symbols' }))

    test('RecorderDown: the process is killed', async () => {
      recorder.program.process.kill('SIGKILL')
      await fires(recorder, 'RecorderDown')
    })
  })

  test('sixty scrapes were taken, and every alert has fired', async () => {
    const scrapes = async () => (await prometheus.values(`sum_over_time(up{instance="${blocked.instance}"}[1h])`))[0]
    await expect.poll(async () => (await scrapes())?.value, times).toBeGreaterThanOrEqual(60)
    const fired = await prometheus.values('count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[1h]))')
    const named = [...(await readFile(rules, 'utf8')).matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    // The archiver runs hourly and its alert waits for hours: the rules' own tests have it, and archiving.test.ts the metric.
    // Those of several recorders need others that die: the rules' own tests have them, and fleet.test.ts what they tell of.
    // Candles contradict fills where a service hides some: the rules' own tests have the alert, and evidence.test.ts the ledger.
    // Jobs are those of TimescaleDB Community: the rules' own tests have their alert, and jobs.test.ts the metric.
    const elsewhere: (string | undefined)[] = [
      'ArchiveFailing',
      'DatabaseJobsFailing',
      'EgressGone',
      'FillsContradicted',
      'InstrumentsUnowned',
    ]
    const all = named.filter((name) => !elsewhere.includes(name))
    expect(new Set(fired.map(({ labels }) => labels['alertname']))).toEqual(new Set(all))
  })
})

/** The project's own rules; only how long a cause must last is made short. */
function quick(text: string): string {
  return text
    .replaceAll(/for: \d+[sm]/g, 'for: 1s')
    .replace('market_recorder_spool_age_seconds > 300', 'market_recorder_spool_age_seconds > 3')
}

/**
 * Instruments that begin to trade when fills are to be lost. Each has a hundred fills a second, as many as a response shows, and all
 * instruments share four requests a second. The others have a fill a second at most.
 */
const busy = [1, 2, 3, 4, 5].map((i) => ['SPOT', `BUSY${i}USDT`] as const)

interface Daemon {
  readonly simulator: Simulator
  readonly proxy: TcpProxy
  readonly database: RecorderDatabase
  readonly program: Running
  readonly configFile: string
  /** As Prometheus calls it. */
  readonly instance: string
  /** Kills it and starts it again, at the same place. */
  restart(books: string): Promise<void>
  close(): Promise<void>
}

const fewBooks = '{ everySeconds: 5 }'
/** Books that fill a spool of the smallest size in half a minute. */
const bigBooks = '{ everySeconds: 2, depth: 1000, select: { busiest: 60 } }'

async function startDaemon(folder: string, name: string): Promise<Daemon> {
  // No fill is lost while all is well: a burst could hold more than a response shows. And nothing is refused that was not
  // meant to be: a machine that is busy elsewhere makes the simulator count late, so it allows more than it is asked for.
  const simulator = await startSimulator({
    scale: name === 'cut off' ? 'small' : 'tiny',
    activity: {
      burstiness: 0,
      scale: 0.1,
      perHour: Object.fromEntries(busy.map((key) => [key.join(':'), 360_000])),
    },
    limits: { factor: 5 },
    quirks: { brotli: false },
  })
  const testDatabase: TestDatabase = await createTestDatabase()
  const proxy = await startTcpProxy(testDatabase.url)
  const configFile = join(folder, `${name}.yaml`)
  const port = await lastingPort()
  const start = async (books: string) => {
    await writeFile(
      configFile,
      `exchange: { baseUrl: '${simulator.url}', limits: { perSecond: { orderbook: 40, fills: 4 } } }
database: { url: '${proxy.through(testDatabase.url)}', dataDir: '${join(folder, name)}' }
collector: { egress: 'alerts ${name}', spoolMaxBytes: 16777216 }
serve: { port: ${port} }
streams:
  instruments: { schedule: '*/2 * * * * *' }
  tickers: { schedule: '* * * * * *' }
  orderBooks: ${books}
  rpiOrderBooks: { select: { busiest: 5 } }
  candles: { enabled: false }
  fundingRates: { enabled: false }
  fundingForecasts: { enabled: false }
  liquidations: { enabled: false }
`,
    )
    const program = startProgram(['start', '--config', configFile])
    await program.printed(/the page is at /)
    return program
  }
  let program = await start(fewBooks)
  return {
    simulator,
    proxy,
    database: testDatabase.database,
    get program() {
      return program
    },
    configFile,
    instance: `127.0.0.1:${port}`,
    async restart(books) {
      program.process.kill('SIGKILL')
      await program.finished
      program = await start(books)
    },
    async close() {
      program.process.kill('SIGCONT')
      program.process.kill('SIGKILL')
      await program.finished
      await simulator.close()
      await proxy.close()
      await testDatabase.drop()
    },
  }
}
