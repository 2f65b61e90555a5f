import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { observedQuirks } from '../support/quirks.js'
import { createWorld } from '../../src/simulator/world/world.js'
import { candleStream, instrumentStream } from '../../src/db/series.js'
import { insertWants } from '../../src/ledger/wants.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { type Running, startProgram } from '../support/program.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'

const dayMs = 86_400_000
const limitFactor = 10
const symbols = ['BTCUSDT', 'ETHUSDT']
// Both operations have a part in it: `candles` reaches 30 days back.
const to = Math.floor((Date.now() - 27 * dayMs) / dayMs) * dayMs
const from = to - 8 * dayMs
/** Of 23,040 candles `candles` gives 8,640 at most, so that there is something of `history-candles` then, and something left. */
const halfway = 9_000

let folder: string
let config: string
/** For what is interrupted: on any machine the rest would take it ten seconds. */
let slow: string
let simulator: SimulatorProcess
let test: TestDatabase
const running = new Set<Running>()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-backfill-'))
  simulator = await startSimulatorProcess(['--scale', 'tiny', '--limit-factor', String(limitFactor)])
  config = await configure('backfill', {})
  slow = await configure('slow', {}, 15)
})
afterAll(async () => {
  await simulator.close()
  await rm(folder, { recursive: true, force: true })
})
beforeEach(async () => {
  test = await createTestDatabase()
})
afterEach(async () => {
  for (const { process, finished } of running) {
    process.kill('SIGKILL')
    await finished
  }
  running.clear()
  await test.drop()
})

/** JSON is YAML. */
async function configure(name: string, more: object, perSecond = 200): Promise<string> {
  const path = join(folder, `${name}.yaml`)
  const exchange = {
    baseUrl: simulator.url,
    limits: { overallPerMinute: 60_000, perSecond: { candles: perSecond, 'history-candles': perSecond } },
  }
  await writeFile(path, JSON.stringify({ exchange, serve: { enabled: false }, ...more }))
  return path
}

function start(args: readonly string[]): Running {
  const program = startProgram(args, { DATABASE_URL: test.url })
  running.add(program)
  return program
}

function backfill(configFile: string, ...more: readonly string[]): Running {
  const range = ['--from', new Date(from).toISOString(), '--to', new Date(to).toISOString()]
  const what = ['--category', 'SPOT', '--symbol', ...symbols, '--interval', '1m']
  return start(['backfill', '--config', configFile, ...what, ...range, ...more])
}

async function candleRequests(): Promise<number> {
  const sources = Object.values(await simulator.report())
  return sources.reduce(
    (sum, { operations }) => sum + operations.candles.requests + operations['history-candles'].requests,
    0,
  )
}

async function storedCount(): Promise<number> {
  const { rows } = await test.database.pool.query<{ count: number }>('select count(*) from market.candles')
  return rows[0]?.count ?? 0
}

/** Every stored candle is the simulator's, none is missing, and all of them are claimed. */
async function expectComplete(): Promise<void> {
  const world = createWorld({ seed: 1, scale: 'tiny', activity: {}, quirks: () => observedQuirks })
  for (const symbol of symbols) {
    const { rows } = await test.database.pool.query<{ text: string }>(
      `select concat_ws(' ', (extract(epoch from open_time) * 1000)::bigint, open, high, low, close, base_volume,
         quote_turnover) as text
       from market.candles where category = 'SPOT' and symbol = $1 and type = 'market' and interval = '1m'
         and open_time >= $2 and open_time < $3 order by open_time`,
      [symbol, new Date(from), new Date(to)],
    )
    const series = { category: 'SPOT', symbol, type: 'market', interval: '1m' } as const
    const truth = world.candles(series, from, to, Date.now()).map((row) => row.join(' '))
    expect(rows.length).toBe(truth.length)
    expect(rows.findIndex(({ text }, i) => text !== truth[i])).toBe(-1)
  }
  const verified = await start(['verify', '--config', config]).finished
  expect(verified).toMatchObject({ exitCode: 0, stderr: '' })
}

/** Resolves when something was stored beyond what was there. */
async function progressed(beyond: number): Promise<void> {
  await expect.poll(storedCount, { interval: 50 }).toBeGreaterThan(beyond)
}

describe('the backfill command', () => {
  it('leaves out candles that are older than the configuration keeps', async () => {
    const keeping = await configure('keeping', { storage: { candles: { retentionDays: 30 } } })
    const warned = await backfill(keeping, '--dry-run', '--json').finished
    expect(warned).toMatchObject({ exitCode: 0 })
    expect(warned.stderr).toMatch(
      /^left out: everything before \S+, which would be removed again: .*retentionDays is 30\n$/,
    )
    expect((await backfill(config, '--dry-run', '--json').finished).stderr).toBe('')
    const storage = { candles: { retentionDays: 30 } }
    const archived = await configure('archived', { storage, archive: { folder: join(tmpdir(), 'no-archive-yet') } })
    expect((await backfill(archived, '--dry-run', '--json').finished).stderr).toMatch(
      /^everything before \S+ stays in the database only until it is archived, and cannot be fetched again: .*retentionDays is 30\n$/,
    )
  })

  it('survives kill -9, says after Ctrl-C how to go on, and makes no request when all is there', async () => {
    const dryRun = await backfill(config, '--dry-run', '--json').finished
    const { requests } = JSON.parse(dryRun.stdout) as { requests: { candles: number; historyCandles: number } }
    const least = requests.candles + requests.historyCandles
    expect(await storedCount()).toBe(0)

    const before = await candleRequests()
    const killed = backfill(slow)
    await progressed(halfway)
    killed.process.kill('SIGKILL')
    await killed.finished

    const stopped = backfill(slow)
    const already = await storedCount()
    await progressed(already)
    stopped.process.kill('SIGINT')
    const { exitCode, stdout, stderr } = await stopped.finished
    expect(exitCode).toBe(1)
    // Of this run alone, whatever the one before has counted.
    const stored = ((await storedCount()) - already).toLocaleString('en-US')
    expect(stdout).toContain(`(${stored} new, 0 changed)`)
    expect(stderr).toMatch(/stopped; continue with: npx market-recorder backfill --config .* --symbol BTCUSDT ETHUSDT/)

    const finished = await backfill(config, '--json').finished
    expect(finished.exitCode, finished.stderr).toBe(0)
    expect(JSON.parse(finished.stdout)).toMatchObject({ left: 0, failed: [] })
    await expectComplete()
    // What was under way is asked for again after each interruption, and no more.
    console.log(`asked ${(await candleRequests()) - before} times, at least ${least}`)
    expect(await candleRequests()).toBeLessThan(before + least * 1.01 + 2 * 20)

    const total = await candleRequests()
    const again = await backfill(config, '--json').finished
    expect(again.exitCode).toBe(0)
    expect(JSON.parse(again.stdout)).toMatchObject({ requests: 0, rows: 0, left: 0 })
    expect(await candleRequests()).toBe(total)
  })

  it.each(['400172', '40017', '40020', '45110'])('fetches what candles refuses with code %s', async (code) => {
    const refusing = (candlesRefuseOldStart: string | null) =>
      fetch(`${simulator.url}/simulator/quirks`, { method: 'POST', body: JSON.stringify({ candlesRefuseOldStart }) })
    expect((await refusing(code)).status).toBe(200)
    try {
      const until = to - 4 * dayMs
      const range = ['--from', new Date(until - dayMs).toISOString(), '--to', new Date(until).toISOString()]
      const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1m', ...range]
      const finished = await start(['backfill', '--config', config, '--json', ...what]).finished
      expect(finished.exitCode, finished.stderr).toBe(0)
      expect(JSON.parse(finished.stdout)).toMatchObject({ left: 0, failed: [] })
      const { rows } = await test.database.pool.query(
        'select count(*)::int as count from market.candles where open_time >= $1 and open_time < $2',
        [new Date(until - dayMs), new Date(until)],
      )
      expect(rows).toEqual([{ count: 1_440 }])
    } finally {
      await refusing(null)
    }
  })

  it('ends with 1 after --again when it was stopped, and when the service refuses it', async () => {
    const range = ['--from', new Date(from).toISOString(), '--to', new Date(from + dayMs).toISOString()]
    const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1m', ...range]
    expect((await start(['backfill', '--config', config, ...what]).finished).exitCode).toBe(0)
    const stopped = start(['backfill', '--config', await configure('crawling', {}, 1), ...what, '--again'])
    const slices = () => test.database.pool.query('select from recorder.slice')
    await expect.poll(async () => (await slices()).rowCount, { interval: 50 }).toBe(1)
    stopped.process.kill('SIGINT')
    const { exitCode, stdout, stderr } = await stopped.finished
    expect([exitCode, stdout, stderr]).toEqual([
      1,
      expect.stringMatching(/left +[1-9]/),
      expect.stringMatching(/--again\n/),
    ])
    const setFaults = (faults: readonly object[]) =>
      fetch(`${simulator.url}/simulator/faults`, { method: 'POST', body: JSON.stringify(faults) })
    await setFaults([{ kind: 'errorCode', code: '40309', operations: ['candles', 'history-candles'] }])
    try {
      const refused = await start(['backfill', '--config', config, ...what, '--again']).finished
      expect(refused.exitCode).toBe(1)
      expect(refused.stderr).toMatch(/\nmissing: SPOT BTCUSDT 1m candles \S+ to \S+: .*40309/)
    } finally {
      await setFaults([])
    }
  })

  it('hands its work to the daemon of the same host and follows it, without the address of the service', async () => {
    const quiet = { enabled: false }
    const live = { select: { symbols: ['BTCUSDT'], categories: ['SPOT'] } }
    const streams = { orderBooks: quiet, rpiOrderBooks: quiet, fills: quiet, rpiSymbols: quiet, candles: live }
    const daemon = start(['start', '--config', await configure('daemon', { streams, log: { level: 'info' } })])
    await daemon.printed(/collecting /)
    const followed = await backfill(await configure('follower', { exchange: {} }), '--json').finished
    expect(followed.stderr).toContain('the recorder on this host is doing the work')
    expect(followed.exitCode, followed.stderr).toBe(0)
    expect(JSON.parse(followed.stdout)).toMatchObject({ left: 0, failed: [] })
    daemon.process.kill('SIGTERM')
    expect((await daemon.finished).exitCode).toBe(0)
    await expectComplete()
  })

  it('says after Ctrl-C that the daemon goes on, and is cancelled by name', async () => {
    const quiet = { enabled: false }
    const streams = { orderBooks: quiet, rpiOrderBooks: quiet, fills: quiet, rpiSymbols: quiet, candles: quiet }
    const daemon = start(['start', '--config', await configure('slowest daemon', { streams }, 5)])
    await daemon.printed(/collecting /)
    for (let run = 0; run < 2; run++) {
      const before = await storedCount()
      const followed = backfill(config, '--json')
      await followed.printed(/the recorder on this host is doing the work/)
      await progressed(before)
      followed.process.kill('SIGINT')
      const { exitCode, stdout, stderr } = await followed.finished
      expect(stderr).toContain('the recorder on this host goes on with it')
      expect(stderr).not.toContain('missing:')
      expect(JSON.parse(stdout)).toMatchObject({ failed: [] })
      expect(exitCode).toBe(1)
    }
    const { rows } = await test.database.pool.query('select from recorder.want')
    expect(rows.length).toBe(symbols.length)
    const cancelled = await start(['backfill', '--cancel', '--symbol', 'BTC*', '--config', config]).finished
    expect(cancelled).toMatchObject({ exitCode: 0, stdout: 'cancelled: SPOT BTCUSDT 1m candles\n' })

    const follower = backfill(await configure('follower', { exchange: {} }))
    await follower.printed(/the recorder on this host is doing the work/)
    daemon.process.kill('SIGTERM')
    await daemon.finished
    const unable = await follower.finished
    expect(unable).toMatchObject({ exitCode: 2, stdout: '' })
    expect(unable.stderr).toMatch(/\nerror: exchange.baseUrl is not set; .*\n$/)
    const rest = await start(['backfill', '--cancel', '--config', config]).finished
    // On a busy machine the daemon may have finished some of them.
    expect(rest.stdout).toMatch(/^cancelled: SPOT \w+ 1m candles( and \d more)?\n$/)
    expect(rest.exitCode).toBe(0)
  })

  it.each([
    ['candles', 'SPOT BTCUSDT 1m candles'],
    ['fills', 'SPOT BTCUSDT fills'],
    ['funding', 'USDT-FUTURES BTCUSDT funding_rates'],
  ])('is cancelled by the name of its stream: %s', async (name, cancelled) => {
    const range = { from: to - dayMs, to }
    const rest = { ranges: [range], floor: range.from, again: false, isUrgent: false, hasOpenBeginning: false }
    await insertWants(
      test.database.db,
      [
        candleStream({ category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' }),
        instrumentStream('fills', { category: 'SPOT', symbol: 'BTCUSDT' }),
        instrumentStream('funding_rates', { category: 'USDT-FUTURES', symbol: 'BTCUSDT' }),
      ].map((series) => ({ kind: 'backfill', series, ...rest })),
    )
    const cancel = () => start(['backfill', '--cancel', '--stream', name, '--config', config]).finished
    expect(await cancel()).toMatchObject({ exitCode: 0, stdout: `cancelled: ${cancelled}\n` })
    expect(await cancel()).toMatchObject({ exitCode: 0, stdout: 'no backfill is open\n' })
  })

  it('takes over when the daemon ends', async () => {
    const quiet = { enabled: false }
    const streams = { orderBooks: quiet, rpiOrderBooks: quiet, fills: quiet, rpiSymbols: quiet, candles: quiet }
    const daemon = start(['start', '--config', await configure('slow daemon', { streams }, 15)])
    await daemon.printed(/collecting /)
    const followed = backfill(config, '--json')
    await progressed(halfway)
    daemon.process.kill('SIGKILL')
    await daemon.finished
    const { exitCode, stdout, stderr } = await followed.finished
    expect(exitCode, stderr).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ left: 0, failed: [] })
    await expectComplete()
  })

  it('makes way for a daemon that starts, and for one that is started again', async () => {
    const quiet = { enabled: false }
    const streams = { orderBooks: quiet, rpiOrderBooks: quiet, fills: quiet, rpiSymbols: quiet, candles: quiet }
    const daemonConfig = await configure('live daemon', { streams, log: { level: 'info' } }, 5)
    const following = backfill(await configure('crawling', {}, 5), '--json')
    await progressed(0)
    for (let run = 0; run < 2; run++) {
      const daemon = start(['start', '--config', daemonConfig])
      await daemon.printed(/collecting /)
      const before = await storedCount()
      await progressed(before)
      daemon.process.kill('SIGTERM')
      await daemon.finished
    }
    const daemon = start(['start', '--config', await configure('quick daemon', { streams })])
    const { exitCode, stdout, stderr } = await following.finished
    expect(exitCode, stderr).toBe(0)
    expect(stderr.match(/the recorder on this host is doing the work/g)).toHaveLength(1)
    expect(JSON.parse(stdout)).toMatchObject({ left: 0, failed: [] })
    daemon.process.kill('SIGTERM')
    expect((await daemon.finished).exitCode).toBe(0)
    await expectComplete()
  })

  it('says what is wrong in one line', async () => {
    const wrong = [
      [['--interval', '7m'], /argument '7m' is invalid/, 2],
      [['--from', 'yesterday'], /Give a time such as 2026-01-31/, 2],
      [['--from', '2999-01-01'], /--from lies in the future: 2999-01-01T00:00:00\.000Z/, 2],
      [['--symbol', 'NOSUCH*'], /no instrument of SPOT matches/, 1],
      [['--config', await configure('follower', { exchange: {} })], /^error: exchange.baseUrl is not set; .*\n$/, 2],
    ] as const
    for (const [args, message, exitCode] of wrong) {
      const base = { '--symbol': 'BTCUSDT', '--interval': '1m', '--from': '2026-01-01', [args[0]]: args[1] }
      const given = Object.entries(base).flat()
      const result = await start(['backfill', '--config', config, '--category', 'SPOT', ...given]).finished
      expect(result.stderr).toMatch(message)
      expect(result.exitCode).toBe(exitCode)
      expect(result.stderr).not.toMatch(/ at .*\.js/)
    }
  })
})
