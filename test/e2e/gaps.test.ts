import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, startProgram } from '../support/program.js'
import { temporaryFolder } from '../support/temporaryFolder.js'

const dayMs = 86_400_000
const to = Math.floor((Date.now() - dayMs) / dayMs) * dayMs
const gap = { from: to - dayMs / 2, to: to - dayMs / 2 + 3_600_000 }

const patience = { timeout: 120_000, interval: 200 }
const config = join(temporaryFolder('gaps'), 'recorder.yaml')
let simulator: Simulator
let test: TestDatabase
beforeEach(async () => {
  simulator = await startSimulator({ scale: 'tiny', quirks: { hiddenCandles: [gap] } })
  test = await createTestDatabase()
})
afterEach(async () => {
  await endPrograms()
  await simulator.close()
  await test.drop()
})

const start = (...args: readonly string[]) =>
  startProgram(args, { DATABASE_URL: test.url, EXCHANGE_BASE_URL: simulator.url })
const run = (...args: readonly string[]) => start(...args).finished

it('a gap that the service leaves is told, listed, and repaired when the service has it', async () => {
  expect(await run('gaps', '--all')).toMatchObject({ exitCode: 0, stdout: 'no gaps are known\n' })

  const range = ['--from', new Date(to - dayMs).toISOString(), '--to', new Date(to).toISOString()]
  // What is missing among candles of trades is silence; mark prices are never silent.
  const what = ['--category', 'USDT-FUTURES', '--symbol', 'BTCUSDT', '--interval', '1m', '--type', 'mark']
  const incomplete = await run('backfill', ...what, ...range)
  expect(incomplete.exitCode).toBe(1)
  expect(incomplete.stdout).toMatch(/candles left +60\n/)
  expect(incomplete.stderr).toMatch(
    /missing: USDT-FUTURES BTCUSDT 1m mark candles .*: the service does not give these candles/,
  )

  const listed = await run('gaps')
  expect(listed.stdout).toMatch(/^candles, open: the service does not give these candles \(1, 1 can be repaired\)\n/)
  expect(listed.stdout).toMatch(/ {2}USDT-FUTURES BTCUSDT 1m mark candles \(60\) /)
  const failed = await run('gaps', '--repair')
  expect(failed.exitCode).toBe(1)
  expect(failed.stdout).toMatch(/\n0 of 1 gaps repaired; 1 not yet, see above and npx market-recorder gaps\n$/)

  simulator.control.setQuirks({ hiddenCandles: [] })
  // A recorder does the work, so the command need not know the service.
  await writeFile(config, 'serve: { enabled: false }\nstreams: { fills: { enabled: false } }\n')
  const recorder = start('start', '--allow-overload', '--config', config)
  await recorder.printed(/collecting /)
  const repaired = await startProgram(['gaps', '--repair'], { DATABASE_URL: test.url }).finished
  recorder.process.kill('SIGTERM')
  await recorder.finished
  expect(repaired.exitCode, repaired.stderr).toBe(0)
  expect(repaired.stdout).toMatch(/^candles received +60 \(60 new, 0 changed\)\n[^]*\n1 of 1 gaps repaired\n$/)
  expect(await run('gaps')).toMatchObject({ stdout: 'no gap is open or lost; --all shows repaired ones, too\n' })
  expect(await run('gaps', '--repair')).toMatchObject({ exitCode: 0, stdout: 'nothing can be repaired\n' })
  expect((await run('verify')).exitCode).toBe(0)
  expect(await run('verify', '--symbol', 'NOSUCH*')).toMatchObject({
    exitCode: 1,
    stderr: 'error: nothing is stored of symbols like NOSUCH*\n',
  })
})

it('a gap of settled funding rates is repaired', async () => {
  const { pool } = test.database
  const day = (count: number) => new Date(to - count * dayMs).toISOString()
  const what = ['--stream', 'funding', '--category', 'USDT-FUTURES', '--symbol', 'BTCUSDT']
  expect(await run('backfill', ...what, '--from', day(20), '--to', day(2))).toMatchObject({ exitCode: 0 })
  const one = "category = 'USDT-FUTURES' and symbol = 'BTCUSDT'"
  const stored = async (): Promise<unknown> =>
    (await pool.query(`select ts, funding_rate from market.funding_rates where ${one} order by ts`)).rows
  const all = await stored()
  await pool.query(`delete from market.funding_rates where ${one} and ts >= $1 and ts < $2`, [day(19), day(3)])
  await pool.query(`delete from recorder.ledger where stream = 'funding_rates' and ${one}`)
  await pool.query(
    "select recorder.claim_events('funding_rates', 'USDT-FUTURES', 'BTCUSDT', $1, 'the recorder was off')",
    [`{[${day(20)}, ${day(19)}), [${day(3)}, ${day(2)})}`],
  )
  const listed = await run('gaps')
  expect(listed.stdout).toMatch(/^funding_rates, open: the recorder was off \(1, 1 can be repaired\)\n/)
  const repaired = await run('gaps', '--repair')
  expect(repaired, repaired.stderr).toMatchObject({ exitCode: 0 })
  expect(repaired.stdout).toMatch(/\n1 of 1 gaps repaired\n$/)
  expect(await stored()).toEqual(all)
})

it('a gap of fills says that the recorder did not run meanwhile', async () => {
  // Without a history, the gap stays as it was found. In a burst, six fills of one millisecond prove nothing for minutes.
  const few = await startSimulator({
    scale: 'tiny',
    activity: { burstiness: 0 },
    quirks: { pageRows: { fills: 6 }, noFillsHistory: 'code' },
  })
  const oldestShown = async (): Promise<number> => {
    const response = await fetch(`${few.url}/api/v3/market/fills?category=USDT-FUTURES&symbol=BTCUSDT`)
    const { data } = (await response.json()) as { data: { ts: string }[] }
    return Math.min(...data.map(({ ts }) => Number(ts)))
  }
  const database = await createTestDatabase()
  const { pool } = database.database
  const config = join(temporaryFolder('away'), 'recorder.yaml')
  await writeFile(config, 'serve: { enabled: false }\n')
  const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: few.url }
  const newest = async (): Promise<number> => {
    const { rows } = await pool.query<{ newest: number | null }>(
      `select max(to_time) as newest from market.coverage
       where stream = 'fills' and category = 'USDT-FUTURES' and symbol = 'BTCUSDT'`,
    )
    return rows[0]?.newest ?? 0
  }
  const newestFill = async (): Promise<number> => {
    const { rows } = await pool.query<{ ts: number }>(
      "select max(ts) as ts from market.fills where category = 'USDT-FUTURES' and symbol = 'BTCUSDT'",
    )
    return rows[0]?.ts ?? 0
  }
  try {
    let before = 0
    for (let run = 1; run <= 2; run++) {
      const recorder = startProgram(['start', '--wait', '--allow-overload', '--config', config], env)
      await vi.waitFor(async () => expect(await newest()).toBeGreaterThan(before), patience)
      recorder.process.kill('SIGTERM')
      expect(await recorder.finished).toMatchObject({ exitCode: 0 })
      if (run === 2) break
      before = await newest()
      // What is seen and not settled yet is not missed.
      const seen = await newestFill()
      await vi.waitFor(async () => expect(await oldestShown()).toBeGreaterThan(seen), patience)
    }
    const { rows } = await pool.query<{ reason: string }>(
      `select reason from market.gaps
       where stream = 'fills' and category = 'USDT-FUTURES' and symbol = 'BTCUSDT' and to_time > to_timestamp($1)`,
      [before / 1000],
    )
    expect(rows.map(({ reason }) => reason)).toContain(
      'the recorder did not run, or not for this instrument, and its first response shows fewer fills than happened meanwhile',
    )
    const listed = await startProgram(['gaps', '--all', '--stream', 'fills'], env).finished
    expect(listed.stdout).toMatch(/^fills, \w+: the recorder did not run, .*\n[^]* BTCUSDT /m)
  } finally {
    await endPrograms()
    await few.close()
    await database.drop()
  }
})
