import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { candleStream } from '../../src/db/series.js'
import { recordGap } from '../../src/ledger/gaps.js'
import { insertWants } from '../../src/ledger/wants.js'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { addCoverage } from '../support/coverage.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, startProgram } from '../support/program.js'

const dayMs = 86_400_000
const to = Math.floor((Date.now() - dayMs) / dayMs) * dayMs
const day = { from: to - dayMs, to }
const daysBefore = (count: number) => new Date(to - count * dayMs).toISOString()
const seriesOf = (symbol: string) => candleStream({ category: 'SPOT', symbol, type: 'market', interval: '1m' })
const candles = ['candles', 'history-candles'] as const

let simulator: Simulator
let test: TestDatabase
beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
  test = await createTestDatabase()
})
afterEach(async () => {
  await endPrograms()
  await simulator.close()
  await test.drop()
})

const start = (...args: readonly string[]) =>
  startProgram(args, { DATABASE_URL: test.url, EXCHANGE_BASE_URL: simulator.url })
const what = (...symbols: readonly string[]) => ['--category', 'SPOT', '--symbol', ...symbols, '--interval', '1m']
const newestDay = ['--from', daysBefore(1), '--to', daysBefore(0)]
const count = async (relation: string) => (await test.database.pool.query(`select from ${relation}`)).rowCount
const slowly = (ms: number) =>
  simulator.control.setFaults([{ kind: 'latency', minMs: ms, maxMs: ms, operations: [...candles] }])

describe('a backfill', () => {
  it('refuses a symbol that it knows nothing of, whatever the others are', async () => {
    for (const more of [[], ['--dry-run']]) {
      const { exitCode, stderr } = await start('backfill', ...what('BTCUSDT', 'BTCUSTD'), ...newestDay, ...more)
        .finished
      expect(stderr).toMatch(/^error: no instrument of SPOT matches BTCUSTD; /)
      expect(exitCode).toBe(1)
    }
    expect(await count('recorder.want')).toBe(0)
  })

  it('names the gaps of a symbol that left the list, also when nothing else is asked for', async () => {
    await recordGap(test.database.db, { ...seriesOf('GONEUSDT'), range: day, reason: 'away' })
    const { exitCode, stderr } = await start('backfill', ...what('GONEUSDT'), ...newestDay).finished
    expect(stderr).toMatch(
      /^missing: SPOT GONEUSDT has gaps and is not listed any more: away\nerror: nothing to fetch: /,
    )
    expect(exitCode).toBe(1)
  })

  it.each([
    ['fills', what('BTCUSDT').slice(0, -2)],
    ['candles', what('BTCUSDT')],
  ])('from the launch says when nothing of it can be had: %s', async (stream, which) => {
    const until = stream === 'fills' ? daysBefore(100) : '2010-01-01'
    const ended = await start('backfill', '--stream', stream, ...which, '--from', 'launch', '--to', until).finished
    expect(ended).toMatchObject({ exitCode: 1, stdout: '' })
    expect(ended.stderr).toMatch(/^error: nothing to fetch: /)
  })

  it('that is stopped while it reads the list says how to go on', async () => {
    simulator.control.setFaults([{ kind: 'noResponse', operations: ['instruments'] }])
    const reading = start('backfill', ...what('BTCUSDT'), ...newestDay)
    await expect.poll(() => count('recorder.lease')).toBe(1)
    reading.process.kill('SIGINT')
    const { exitCode, stderr } = await reading.finished
    expect(stderr).toMatch(/^stopped; continue with: npx market-recorder backfill --category SPOT /)
    expect(exitCode).toBe(1)
  })

  it('waits for its database', async () => {
    slowly(3_000)
    const running = start('backfill', ...what('BTCUSDT'), ...newestDay)
    await expect.poll(() => count('recorder.slice')).toBe(1)
    // No connection stays for longer than a millisecond.
    await test.database.pool.query(`
      do $$ begin
        for cut in 1..3000 loop
          perform pg_stat_clear_snapshot();
          perform pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and application_name not like 'recorder_test%' and pid <> pg_backend_pid();
          perform pg_sleep(0.001);
        end loop;
      end $$`)
    const { exitCode, stdout, stderr } = await running.finished
    expect(stderr).not.toContain('error:')
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/candles left +0\n/)])
  })

  it('does not call a time missing that is recorded meanwhile', async () => {
    const { db } = test.database
    await addCoverage(db, seriesOf('BTCUSDT'), [{ from: to + 3_600_000, to: to + 7_200_000 }])
    slowly(3_000)
    const running = start('backfill', ...what('BTCUSDT'), ...newestDay)
    await expect.poll(() => count('recorder.slice')).toBe(1)
    await addCoverage(db, seriesOf('BTCUSDT'), [{ from: to, to: to + 3_600_000 }])
    const { exitCode, stderr } = await running.finished
    expect(stderr).not.toContain('not in it')
    expect(exitCode).toBe(0)
  })

  it('is not kept waiting by larger ones that were interrupted', async () => {
    const older = { from: to - 400 * dayMs, to: to + 3_600_000 }
    const flags = { again: false, isUrgent: false, hasOpenBeginning: false }
    const earlier = ['BTCUSDT', 'ETHUSDT'].map((symbol) => {
      return { kind: 'backfill', series: seriesOf(symbol), ranges: [older], floor: older.from, ...flags } as const
    })
    await insertWants(test.database.db, earlier)
    const ended = await start('backfill', '--json', ...what('BTCUSDT'), ...newestDay).finished
    expect(ended.exitCode, ended.stderr).toBe(0)
    const { rows, ...summary } = JSON.parse(ended.stdout) as { rows: number }
    expect(summary).toMatchObject({ left: 0, failed: [] })
    expect(rows).toBeLessThan(100_000)
    expect(await count('recorder.want where ended_at is null')).toBe(2)
  })
})

it('a repair without anything to repair prints JSON, too', async () => {
  const ended = await start('gaps', '--repair', '--json').finished
  expect(JSON.parse(ended.stdout)).toMatchObject({ requests: 0, left: 0, failed: [], gaps: 0, repaired: 0 })
  expect(ended.exitCode).toBe(0)
})
