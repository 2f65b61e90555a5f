import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { startProgram } from '../support/program.js'

const dayMs = 86_400_000
const to = Math.floor((Date.now() - dayMs) / dayMs) * dayMs
const gap = { from: to - dayMs / 2, to: to - dayMs / 2 + 3_600_000 }

let simulator: Simulator
let test: TestDatabase
beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny', quirks: { hiddenCandles: [gap] } })
  test = await createTestDatabase()
})
afterAll(async () => {
  await simulator.close()
  await test.drop()
})

function run(...args: readonly string[]) {
  return startProgram(args, { DATABASE_URL: test.url, EXCHANGE_BASE_URL: simulator.url }).finished
}

it('a gap that the service leaves is told, listed, and repaired when the service has it', async () => {
  expect(await run('gaps', '--all')).toMatchObject({ exitCode: 0, stdout: 'no gaps are known\n' })

  const range = ['--from', new Date(to - dayMs).toISOString(), '--to', new Date(to).toISOString()]
  // What is missing among candles of trades is silence; mark prices are never silent.
  const what = ['--category', 'USDT-FUTURES', '--symbol', 'BTCUSDT', '--interval', '1m', '--type', 'mark']
  const incomplete = await run('backfill', ...what, ...range)
  expect(incomplete.exitCode).toBe(1)
  expect(incomplete.stdout).toMatch(/candles left +60\n/)
  expect(incomplete.stderr).toMatch(/missing: USDT-FUTURES BTCUSDT mark 1m .*: the service does not give these candles/)

  const listed = await run('gaps')
  expect(listed.stdout).toMatch(/^candles, open: the service does not give these candles \(1, 1 can be repaired\)\n/)
  expect(listed.stdout).toMatch(/ {2}USDT-FUTURES BTCUSDT mark 1m \(60 candles\) /)
  expect((await run('gaps', '--repair')).exitCode).toBe(1)

  simulator.control.setQuirks({ hiddenCandles: [] })
  const repaired = await run('gaps', '--repair', '--json')
  expect(repaired.exitCode, repaired.stderr).toBe(0)
  expect(JSON.parse(repaired.stdout)).toMatchObject({ left: 0, inserted: 60, requests: 1 })
  expect(await run('gaps')).toMatchObject({ stdout: 'no gap is open or lost; --all shows repaired ones, too\n' })
  expect(await run('gaps', '--repair')).toMatchObject({ exitCode: 0, stdout: 'nothing can be repaired\n' })
  expect((await run('verify')).exitCode).toBe(0)
})
