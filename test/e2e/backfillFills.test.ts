import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createWorld } from '../../src/simulator/world/world.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { endPrograms, type Running, startProgram } from '../support/program.js'
import { observedQuirks } from '../support/quirks.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'

const hourMs = 3_600_000
/** FILLS_BACKFILL_HOURS=720 makes it the tape of a month. */
const hours = Number(process.env['FILLS_BACKFILL_HOURS'] ?? 2)
const kills = 5
const to = Math.floor((Date.now() - 3 * hourMs) / hourMs) * hourMs
const from = to - hours * hourMs
const series = [
  ['SPOT', 'BTCUSDT'],
  ['SPOT', 'ETHUSDT'],
  ['SPOT', 'WEIUSDT'],
  ['USDT-FUTURES', 'BTCUSDT'],
  ['USDT-FUTURES', 'XAUUSDT'],
] as const
const symbols = new Set(series.map(([, symbol]) => symbol))

let folder: string
let config: string
let simulator: SimulatorProcess
let database: TestDatabase

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-fills-'))
  simulator = await startSimulatorProcess(['--scale', 'tiny', '--limit-factor', '10'])
  database = await createTestDatabase()
  config = join(folder, 'config.yaml')
  const perSecond = { 'futures-fills-history': 100, 'spot-fills-history': 100 }
  const exchange = { baseUrl: simulator.url, limits: { overallPerMinute: 60_000, perSecond } }
  await writeFile(config, JSON.stringify({ exchange, serve: { enabled: false } }))
})
afterEach(async () => {
  await endPrograms()
  await simulator.close()
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

function backfill(...more: readonly string[]): Running {
  const range = ['--from', new Date(from).toISOString(), '--to', new Date(to).toISOString()]
  const what = ['--stream', 'fills', '--category', 'SPOT', 'USDT-FUTURES', '--symbol', ...symbols]
  return startProgram(['backfill', '--config', config, ...what, ...range, ...more], { DATABASE_URL: database.url })
}

async function storedCount(): Promise<number> {
  const { rows } = await database.database.pool.query<{ count: number }>('select count(*) from market.fills')
  return rows[0]?.count ?? 0
}

async function requests(): Promise<number> {
  return Object.values(await simulator.report()).reduce(
    (sum, { operations }) =>
      sum + operations['spot-fills-history'].requests + operations['futures-fills-history'].requests,
    0,
  )
}

test.each([
  ['funding', 'SPOT: only futures have funding rates'],
  ['fills', 'everything before \\S+, which is out of reach or before the launch'],
])('a backfill that can fetch nothing of what it is asked for says why: %s', async (stream, reason) => {
  const what = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--from', '2025-01-01', '--to', '2025-01-02']
  const args = ['backfill', '--config', config, '--stream', stream, ...what]
  const { exitCode, stderr } = await startProgram(args, { DATABASE_URL: database.url }).finished
  expect([exitCode, stderr]).toEqual([
    1,
    expect.stringMatching(`^left out: ${reason}\nerror: nothing to fetch: all .* left out, see above\n$`),
  ])
})

test(
  'the tape of some instruments is whole after a backfill that was killed again and again',
  async () => {
    const dryRun = await backfill('--dry-run').finished
    expect(dryRun.stdout).toMatch(
      /^series {4}5, 5 incomplete\nrequests {2}\d+ \(fills-history\), and those of 5 instruments/,
    )
    expect(await requests()).toBe(0)

    const world = createWorld({ seed: 1, scale: 'tiny', activity: {}, quirks: () => observedQuirks })
    const truth = series.map(([category, symbol]) => world.fills(category, symbol, from, to))
    const total = truth.reduce((sum, fills) => sum + fills.length, 0)
    const least = truth.reduce((sum, fills) => sum + Math.ceil(fills.length / 1_000), 0)
    for (let kill = 1; kill <= kills; kill++) {
      const running = backfill()
      // Where this process stood still meanwhile, there may be nothing left to interrupt.
      const beyond = Math.min(total - 1, Math.max(await storedCount(), (total * kill) / (kills + 2)))
      await expect.poll(storedCount, { timeout: 120_000 * hours, interval: 20 * hours }).toBeGreaterThan(beyond)
      running.process.kill('SIGKILL')
      await running.finished
    }
    const finished = await backfill('--json').finished
    expect(finished.exitCode, finished.stderr).toBe(0)
    expect(JSON.parse(finished.stdout)).toMatchObject({ left: 0, failed: [] })

    for (const [index, [category, symbol]] of series.entries()) {
      const { rows } = await database.database.pool.query<{ text: string }>(
        `select concat_ws(' ', (extract(epoch from ts) * 1000)::bigint, exec_id, side, price, size) as text
       from market.fills where category = $1 and symbol = $2 and ts >= $3 and ts < $4 order by ts, exec_id`,
        [category, symbol, new Date(from), new Date(to)],
      )
      const expected = truth[index]?.map(
        ({ ts, execId, side, price, size }) => `${ts} ${execId} ${side} ${price} ${size}`,
      )
      expect(rows.map(({ text }) => text).toSorted()).toEqual(expected?.toSorted())
    }
    const { rows: covered } = await database.database.pool.query(
      `select from_time <= $1 and to_time >= $2 as is_whole from market.coverage where stream = 'fills'`,
      [new Date(from), new Date(to)],
    )
    expect(covered).toEqual(series.map(() => ({ is_whole: true })))
    // Each start proves the ids of each series once, and what was under way is asked for again.
    const proofs = (kills + 1) * series.length
    console.log(`${await requests()} requests for ${total} fills, ${least} at least, ${proofs} of them proofs`)
    expect(await requests()).toBeLessThanOrEqual(least * 1.02 + 3 * proofs)

    const before = await requests()
    const again = await backfill('--json').finished
    expect(JSON.parse(again.stdout)).toMatchObject({ requests: 0, rows: 0, left: 0 })
    expect(await requests()).toBe(before)
  },
  1_800_000 + hours * 5_000,
)
