import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runProgram, startProgram } from '../support/program.js'

const tables = [
  'instruments',
  'instrument_history',
  'rpi_symbols',
  'tickers',
  'order_books',
  'rpi_order_books',
  'fills',
  'candles',
  'funding_rates',
  'funding_forecasts',
  'liquidations',
]

let dataDir: string
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'market-recorder-demo-'))
})
afterAll(async () => {
  await rm(dataDir, { recursive: true, force: true })
})

async function query(sql: string): Promise<Record<string, string>[]> {
  const { exitCode, stdout, stderr } = await runProgram(['query', '--data-dir', dataDir, '--json', sql])
  if (exitCode !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as Record<string, string>[]
}

async function serversOf(folder: string): Promise<string[]> {
  const { stdout } = await promisify(execFile)('ps', ['-eo', 'args'])
  return stdout.split('\n').filter((line) => line.includes(folder) && line.includes('postgres'))
}

const countAll = tables.map((table) => `(select count(*) from market.${table}) as ${table}`).join(', ')

test('every table has rows soon, and kill -9 loses none of them', async () => {
  const first = startProgram(['demo', '--data-dir', dataDir])
  await first.printed(/psql 'postgresql:\/\/reader:/)
  await first.printed(/collecting/)
  let before: Record<string, string> | undefined
  const empty = async () => {
    ;[before] = await query(`select ${countAll}`)
    return tables.filter((table) => Number(before?.[table]) === 0)
  }
  await expect.poll(empty, { timeout: 240_000, interval: 1_000 }).toEqual([])

  first.process.kill('SIGKILL')
  await first.finished
  await expect.poll(() => serversOf(dataDir), { timeout: 60_000 }).toEqual([])

  const second = await runProgram(['demo', '--for', '8', '--data-dir', dataDir])
  expect(second.exitCode).toBe(0)
  const [after] = await query(`select ${countAll}`)
  for (const table of tables) {
    expect(Number(after?.[table]), table).toBeGreaterThanOrEqual(Number(before?.[table]))
    expect(second.stdout).toMatch(new RegExp(`^  ${table} +${Number(after?.[table]).toLocaleString('en-US')}$`, 'm'))
  }
  expect(Number(after?.['tickers'])).toBeGreaterThan(Number(before?.['tickers']))
  expect(await serversOf(dataDir)).toEqual([])
})

test('Ctrl-C stores what is in hand, says what there is and ends well', async () => {
  const demo = startProgram(['demo', '--data-dir', dataDir])
  await demo.printed(/collecting/)
  demo.process.kill('SIGINT')
  const { exitCode, stdout } = await demo.finished
  expect(exitCode).toBe(0)
  expect(stdout).toContain('Rows stored:')
})
