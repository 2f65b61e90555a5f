import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { endPrograms, entryPoint, runProgram, startProgram } from '../support/program.js'

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
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'market-recorder-demo-'))
})
afterEach(async () => {
  await endPrograms()
  await expect.poll(() => serversOf(dataDir)).toEqual([])
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
  await expect.poll(empty, { interval: 1_000 }).toEqual([])

  first.process.kill('SIGKILL')
  await first.finished
  await expect.poll(() => serversOf(dataDir)).toEqual([])

  const recorder = startProgram(['demo', '--data-dir', dataDir])
  await recorder.printed(/collecting/)
  const tickers = async () => Number((await query('select count(*) as count from market.tickers'))[0]?.['count'])
  await expect.poll(tickers, { interval: 1_000 }).toBeGreaterThan(Number(before?.['tickers']))
  recorder.process.kill('SIGINT')
  const second = await recorder.finished
  expect(second.exitCode, second.stderr + second.stdout).toBe(0)
  const [after] = await query(`select ${countAll}`)
  for (const table of tables) {
    expect(Number(after?.[table]), table).toBeGreaterThanOrEqual(Number(before?.[table]))
    expect(second.stdout).toMatch(new RegExp(`^  ${table} +${Number(after?.[table]).toLocaleString('en-US')}$`, 'm'))
  }
  expect(second.stdout).not.toContain('taker_flow')
  expect(second.stdout).toContain(`market-recorder query --data-dir ${dataDir} "select`)
  expect(await serversOf(dataDir)).toEqual([])
})

test('a second start in its folder says who records there, and one elsewhere takes the next port', async () => {
  const demo = startProgram(['demo', '--data-dir', dataDir])
  const [, url = ''] = await demo.printed(/Page +(http:\S+)/)
  const again = await runProgram(['demo', '--data-dir', dataDir])
  expect(again.exitCode).toBe(1)
  expect(again.stderr).toContain(`a recorder works in ${dataDir} already: its page is at ${url}; stop it`)

  await writeFile(join(dataDir, 'free.yaml'), 'serve: { port: 0 }\n')
  const other = ['start', '--config', join(dataDir, 'free.yaml'), '--data-dir', dataDir, '--wait', '--allow-overload']
  const onOther = await runProgram(other, { EXCHANGE_BASE_URL: 'http://127.0.0.1:9' })
  expect(onOther).toMatchObject({ exitCode: 1, stderr: again.stderr })

  const elsewhere = startProgram(['demo', '--data-dir', join(dataDir, 'elsewhere')])
  const [, next = ''] = await elsewhere.printed(/Page +(http:\S+)/)
  expect(Number(new URL(next).port)).toBeGreaterThan(Number(new URL(url).port))

  // Nothing is created before it is known that the page can be served.
  const env = { EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
  const taken = join(dataDir, 'taken')
  const config = join(dataDir, 'taken.yaml')
  await writeFile(config, `serve: { port: ${new URL(url).port} }\n`)
  const start = await runProgram(['start', '--config', config, '--data-dir', taken, '--wait', '--allow-overload'], env)
  expect(start.exitCode).toBe(1)
  expect(start.stderr).toMatch(/cannot serve the page on 127\.0\.0\.1:\d+: the port is taken/)
  expect(existsSync(taken)).toBe(false)
  for (const { process } of [demo, elsewhere]) process.kill('SIGINT')
  await Promise.all([demo.finished, elsewhere.finished])
})

test('start at a terminal says where the page is and how to query', async () => {
  const simulator = startProgram(['simulate', '--port', '0', '--scale', 'tiny'])
  const [service = ''] = await simulator.printed(/http:\S+/)
  const folder = join(dataDir, 'terminal')
  await writeFile(join(dataDir, 'free.yaml'), 'serve: { port: 0 }\n')
  const start = `'${entryPoint}' start --for 1 --allow-overload --data-dir '${folder}' --config '${dataDir}/free.yaml'`
  // Of util-linux: it runs a command on a terminal of its own.
  const args = ['--quiet', '--return', '--command', `'${process.execPath}' ${start}`, '/dev/null']
  const env = { ...process.env, EXCHANGE_BASE_URL: service }
  const { stdout } = await promisify(execFile)('script', args, { env })
  expect(stdout).toMatch(/^ {2}Page {2}http:\/\/127\.0\.0\.1:\d+\r?$/m)
  expect(stdout).toMatch(
    /^ {2}SQL {3}psql 'postgresql:\/\/reader:\w+@127\.0\.0\.1:\d+\/recorder\?sslmode=disable'\r?$/m,
  )
  simulator.process.kill('SIGINT')
  await simulator.finished
})

test('Ctrl-C stores what is in hand, says what there is and ends well', async () => {
  const demo = startProgram(['demo', '--data-dir', dataDir])
  await demo.printed(/collecting/)
  demo.process.kill('SIGINT')
  const { exitCode, stdout } = await demo.finished
  expect(exitCode).toBe(0)
  expect(stdout).toContain('Rows stored:')
})
