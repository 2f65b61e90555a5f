import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { RecorderDatabase } from '../../src/store/db/database.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { prometheus as findPrometheus, promtool } from '../support/installed.js'
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
      startDaemon(folder, 'cut off', bigBooks),
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
  const times = { timeout: 150_000, interval: 250 }
  /** Resolves to the labels with which it fires. */
  async function fires(daemon: Daemon, name: string): Promise<Readonly<Record<string, string>>> {
    await expect.poll(() => firing(daemon, name), times).not.toEqual([])
    return (await firing(daemon, name))[0]?.labels ?? {}
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

  test('RequestsFailing: the service answers one operation with errors', async () => {
    recorder.simulator.control.addFault({ kind: 'http', status: 500, operations: ['rpi-symbols'] })
    expect(await fires(recorder, 'RequestsFailing')).toMatchObject({ operation: 'rpi-symbols' })
  })

  test('RequestsRejected: the service blocks the address', async () => {
    blocked.simulator.control.addFault({ kind: 'block', count: 1 })
    await fires(blocked, 'RequestsRejected')
  })

  test('DatabaseUnreachable, RecorderNotReady: the database is away', async () => {
    await cutOff.proxy.refuse()
    await fires(cutOff, 'DatabaseUnreachable')
    await fires(cutOff, 'RecorderNotReady')
  })

  test('RowsRejected: a row of each page makes no sense', async () => {
    recorder.simulator.control.setQuirks({ brokenRows: { operations: ['tickers'], kind: 'nonsense' } })
    expect(await fires(recorder, 'RowsRejected')).toMatchObject({ stream: 'tickers' })
    recorder.simulator.control.setQuirks({ brokenRows: null })
  })

  test('EventLoopLag: the process gets only a part of the processor', async () => {
    const ending = new AbortController()
    const stutter = (async () => {
      while (!ending.signal.aborted) {
        recorder.program.process.kill('SIGSTOP')
        await sleep(400)
        recorder.program.process.kill('SIGCONT')
        await sleep(200)
      }
    })()
    try {
      await fires(recorder, 'EventLoopLag')
    } finally {
      ending.abort()
      await stutter
    }
  })

  test('GapFound: the recorder stands still, time and again, while more fills happen than the service shows', async () => {
    for (const [category, symbol] of busy) {
      recorder.simulator.control.list({ category, symbol, launchTime: Date.now() })
    }
    const { world } = recorder.simulator
    const fewest = (since: number) =>
      Math.min(...busy.map(([category, symbol]) => world.fills(category, symbol, since, Date.now()).length))
    const known = async () =>
      (
        await recorder.database.pool.query(
          `select from recorder.coverage where stream = 'fills' and symbol like 'BUSY%'`,
        )
      ).rowCount
    await expect.poll(known, times).toBe(busy.length)
    const deadline = Date.now() + times.timeout
    while ((await firing(recorder, 'GapFound')).length === 0) {
      expect(Date.now(), 'the alert has not fired').toBeLessThan(deadline)
      recorder.program.process.kill('SIGSTOP')
      const stoppedAt = Date.now()
      try {
        await expect.poll(() => fewest(stoppedAt), times).toBeGreaterThan(fillsShown)
      } finally {
        recorder.program.process.kill('SIGCONT')
      }
      // Until it has asked for all of them, and has been scraped.
      await sleep(2_500)
    }
    expect(await fires(recorder, 'GapFound')).toMatchObject({ stream: 'fills' })
  })

  test('RequestsRejected: one rejection suffices', async () => {
    expect(await firing(recorder, 'RequestsRejected')).toEqual([])
    recorder.simulator.control.addFault({ kind: 'http', status: 429, operations: ['tickers'], count: 1 })
    expect(await fires(recorder, 'RequestsRejected')).toMatchObject({ operation: 'tickers' })
  })

  test('BackfillFailed: the service refuses the candles that are asked for', async () => {
    recorder.simulator.control.addFault({
      kind: 'errorCode',
      code: '400172',
      operations: ['candles', 'history-candles'],
    })
    const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1H', '--from', '2026-01-01']
    const backfill = startProgram(['backfill', ...what, '--to', '2026-01-02', '--config', recorder.configFile])
    await fires(recorder, 'BackfillFailed')
    backfill.process.kill('SIGTERM')
    await backfill.finished
  })

  test('SpoolInUse, SpoolFilling, RowsDropped: the database stays away until the spool is full', async () => {
    await fires(cutOff, 'SpoolInUse')
    await fires(cutOff, 'SpoolFilling')
    await fires(cutOff, 'RowsDropped')
    await cutOff.proxy.restore()
    for (const name of ['DatabaseUnreachable', 'SpoolInUse', 'SpoolFilling']) await ends(cutOff, name)
  })

  test('StreamStale: the operation that fails has failed for long', async () => {
    expect(await fires(recorder, 'StreamStale')).toMatchObject({ stream: 'rpi_symbols' })
  })

  test('BudgetExhausted: requests wait for the end of the block', async () => {
    await fires(blocked, 'BudgetExhausted')
  })

  test('RecorderDown: the process is killed', async () => {
    recorder.program.process.kill('SIGKILL')
    await fires(recorder, 'RecorderDown')
  })

  test('a minute was scraped, and every alert has fired', async () => {
    const scrapes = async () => (await prometheus.values(`sum_over_time(up{instance="${blocked.instance}"}[5m])`))[0]
    await expect.poll(async () => (await scrapes())?.value, times).toBeGreaterThanOrEqual(60)
    const fired = await prometheus.values('count by (alertname) (count_over_time(ALERTS{alertstate="firing"}[10m]))')
    const named = [...(await readFile(rules, 'utf8')).matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
    // The archiver runs hourly and its alert waits for hours: the rules' own tests have it, and archiving.test.ts the metric.
    // Those of several recorders need others that die: the rules' own tests have them, and fleet.test.ts what they tell of.
    const elsewhere: (string | undefined)[] = ['ArchiveFailing', 'EgressGone', 'InstrumentsUnowned']
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

/** The most fills that the service shows of an instrument. */
const fillsShown = 100

/** Instruments that begin to trade when fills are to be lost; all others have a fill a second at most. */
const busy = [1, 2, 3, 4, 5].map((i) => ['SPOT', `BUSY${i}USDT`] as const)

interface Daemon {
  readonly simulator: Simulator
  readonly proxy: TcpProxy
  readonly database: RecorderDatabase
  readonly program: Running
  readonly configFile: string
  /** As Prometheus calls it. */
  readonly instance: string
  close(): Promise<void>
}

/** Books that fill a spool of the smallest size in half a minute. */
const bigBooks = '{ everySeconds: 2, depth: 1000, select: { busiest: 60 } }'

async function startDaemon(folder: string, name: string, books = '{ everySeconds: 5 }'): Promise<Daemon> {
  // No fill is lost while all is well: a burst could hold more than a response shows. And nothing is refused that was not
  // meant to be: a machine that is busy elsewhere makes the simulator count late, so it allows more than it is asked for.
  const simulator = await startSimulator({
    scale: books === bigBooks ? 'small' : 'tiny',
    activity: {
      flow: 'even',
      burstiness: 0,
      scale: 0.1,
      perHour: Object.fromEntries(busy.map((key) => [key.join(':'), 108_000])),
    },
    limits: { factor: 5 },
  })
  const testDatabase: TestDatabase = await createTestDatabase()
  const proxy = await startTcpProxy(testDatabase.url)
  const configFile = join(folder, `${name}.yaml`)
  await writeFile(
    configFile,
    `exchange: { baseUrl: '${simulator.url}', limits: { perSecond: { orderbook: 40 } } }
database: { url: '${proxy.through(testDatabase.url)}', dataDir: '${join(folder, name)}' }
collector: { egress: 'alerts ${name}', spoolMaxBytes: 16777216 }
serve: { port: 0 }
streams:
  instruments: { schedule: '*/3 * * * * *' }
  rpiSymbols: { schedule: '*/2 * * * * *' }
  tickers: { schedule: '* * * * * *' }
  orderBooks: ${books}
  rpiOrderBooks: { select: { busiest: 5 } }
  # Few responses: a gap counts for more among them.
  fills: { minPollSeconds: 2 }
  candles: { enabled: false }
`,
  )
  const program = startProgram(['start', '--config', configFile])
  const [, instance = ''] = await program.printed(/the page is at http:\/\/([\d.:]+)/)
  return {
    simulator,
    proxy,
    database: testDatabase.database,
    program,
    configFile,
    instance,
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
