import { execFile } from 'node:child_process'
import { appendFile, copyFile, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { jupyter } from '../support/installed.js'
import { runProgram, startProgram, type Running } from '../support/program.js'
import { readRepositoryFile } from '../support/repositoryFiles.js'

const { path, hint } = jupyter()
const python = join(dirname(path ?? ''), 'python')
const examples = join(import.meta.dirname, '../../examples')
const notebooks = (await readdir(examples)).filter((name) => name.endsWith('.ipynb'))
const run = promisify(execFile)

interface Notebook {
  readonly cells: { readonly cell_type: string; readonly outputs?: { readonly data?: Record<string, unknown> }[] }[]
}

const pictures = ({ cells }: Notebook) =>
  cells.flatMap(({ outputs = [] }) => outputs).filter(({ data = {} }) => 'image/png' in data).length

test('the notebooks are committed with their pictures, and small', async () => {
  expect(notebooks.length).toBeGreaterThan(1)
  for (const name of notebooks) {
    const text = await readFile(join(examples, name), 'utf8')
    expect(text.length, name).toBeLessThan(300_000)
    expect(pictures(JSON.parse(text) as Notebook), name).toBeGreaterThan(2)
  }
})

describe.skipIf(path === null)(`over a recorded market${hint}`, () => {
  let folder: string
  let simulator: Running
  let recorder: Running
  let env: Record<string, string>
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'market-recorder-python-'))
    const dataDir = join(folder, 'data')
    const archive = join(folder, 'archive')
    const config = join(folder, 'recorder.yaml')
    simulator = startProgram(['simulate', '--port', '0', '--scale', 'small'])
    const [service = ''] = await simulator.printed(/http:[^ \n]+/)
    const market = async (...args: string[]) => {
      const { exitCode, stderr } = await runProgram(args)
      if (exitCode !== 0) throw new Error(stderr)
    }
    const streams = ['tickers', 'orderBooks', 'fills', 'candles', 'fundingRates']
    const where = ['--data-dir', dataDir, '--archive', archive, '--out', config]
    await market('init', '--yes', '--url', service, '--record', ...streams, '--symbol', 'BTCUSDT', ...where)
    await appendFile(config, 'serve: { port: 0 }\n')
    const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10)
    const range = ['--from', day(4), '--to', day(3), '--config', config]
    await market('backfill', '--category', 'USDT-FUTURES', '--symbol', 'BTCUSDT', '--interval', '1m', ...range)
    await market('archive', '--table', 'candles', '--config', config)
    const files = await readdir(join(archive, 'market/candles/data'), { recursive: true, withFileTypes: true })
    for (const { name, parentPath } of files.filter((file) => file.isFile()))
      await copyFile(join(parentPath, name), join(parentPath, `former-${name}`))

    recorder = startProgram(['start', '--config', config])
    await recorder.printed(/collecting/)
    const [password, port] = await Promise.all(
      ['reader-password', 'port'].map(async (name) => (await readFile(join(dataDir, 'postgres', name), 'utf8')).trim()),
    )
    const url = `postgresql://reader:${password ?? ''}@127.0.0.1:${port ?? ''}/recorder`
    env = { ...(process.env as Record<string, string>), DATABASE_URL: url, ARCHIVE: archive }
    const fillsAfterBooks = `select count(distinct (b.category, b.ts)) from market.order_books b
      join market.fills f on f.category = b.category and f.symbol = b.symbol and f.ts > b.ts`
    const books = async () => {
      const { stdout } = await runProgram(['query', '--data-dir', dataDir, '--csv', fillsAfterBooks])
      return Number(stdout.split('\n')[1])
    }
    await vi.waitUntil(async () => (await books()) > 5, { timeout: 240_000, interval: 1000 })
  })
  afterAll(async () => {
    for (const { process, finished } of [recorder, simulator]) {
      process.kill('SIGINT')
      await finished
    }
    await rm(folder, { recursive: true, force: true })
  })

  test.each(notebooks)('%s runs and draws what it draws in the repository', async (name) => {
    const args = ['nbconvert', '--to', 'notebook', '--execute', '--output-dir', folder, join(examples, name)]
    await run(path ?? '', args, { env })
    const [there, here] = await Promise.all(
      [examples, folder].map(async (place) => JSON.parse(await readFile(join(place, name), 'utf8')) as Notebook),
    )
    expect(here === undefined ? 0 : pictures(here)).toBe(there === undefined ? 1 : pictures(there))
  })

  test('the backtest runs on the whole minutes, and names the others first', async () => {
    const minute = (ago: number) => new Date(Math.floor(Date.now() / 60_000 - ago) * 60_000).toISOString()
    const backtest = async () => {
      const args = ['BTCUSDT', '--from', minute(5), '--to', minute(0), '--period', '1 minute']
      const { stdout } = await run(python, [join(examples, 'backtest.py'), ...args], { env, cwd: folder })
      return stdout
    }
    // Of the first minutes some are not recorded in full; then one is.
    await vi.waitUntil(async () => / fills, \d+ trades, result [+-]\d/.test(await backtest()), {
      timeout: 300_000,
      interval: 5_000,
    })
    expect(await backtest()).toMatch(
      /^(.* of the time proven for fills, .*: (used|left out)\n){5}[1-5] of 5 are used; /,
    )
  })

  test('the blocks of the page about Python run one after the other', async () => {
    const blocks = [...readRepositoryFile('docs/python.md').matchAll(/^```python\n(.*?)^```$/gms)].map(
      ([, code]) => code,
    )
    expect(blocks.length).toBeGreaterThan(5)
    const script = join(folder, 'page.py')
    await writeFile(script, blocks.join('\n'))
    const { stdout } = await run(python, [script], { env, cwd: folder })
    expect(stdout).toMatch(/Decimal\('[\d.]+'\)/)
    // Files of a former snapshot do not count, neither in DuckDB nor in Polars.
    expect(stdout).toMatch(/│ +1440 │/)
    expect(stdout).toMatch(/┆ 1440 │/)
    expect(stdout).not.toContain(' 2880 ')
  })
})
