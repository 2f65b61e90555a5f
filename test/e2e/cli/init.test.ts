import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { resolveConfig } from '../../../src/config/resolve.js'
import { parseYaml } from '../../../src/config/yaml.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { entryPoint, runProgram } from '../../support/program.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

let simulator: Simulator
beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny' })
})
afterAll(() => simulator.close())

const folder = temporaryFolder('init')
let count = 0
const newFile = () => join(folder, `${++count}.yaml`)

const configIn = (file: string) => resolveConfig({}, parseYaml(readFileSync(file, 'utf8'), file))

test('writes the decisions and no more, shows what they cost, and says how to go on', async () => {
  const file = newFile()
  const flags = [
    '--url',
    simulator.url,
    '--record',
    'fills',
    'candles',
    '--symbol',
    'BTC*',
    '--category',
    'USDT-FUTURES',
  ]
  const made = await runProgram(['init', '--out', file, ...flags, '--keep-days', '90', '--archive', '/tmp/archive'])
  expect(made).toMatchObject({ exitCode: 0, stderr: '' })
  expect(made.stdout).toMatch(/Instruments listed by the service/)
  expect(made.stdout).toMatch(/│ fills +│ +[1-4] │/)
  expect(made.stdout).toContain(`npx market-recorder start --config ${file} `)
  const config = configIn(file)
  expect(config).toMatchObject({
    exchange: { baseUrl: simulator.url },
    streams: {
      tickers: { enabled: false },
      orderBooks: { enabled: false },
      fills: { enabled: true, select: { symbols: ['BTC*'], categories: ['USDT-FUTURES'] } },
    },
    storage: { fills: { retentionDays: 90 }, candles: { retentionDays: 90 } },
    archive: { folder: '/tmp/archive' },
  })
  expect(config.storage.tickers).not.toHaveProperty('retentionDays')
})

test.for([
  ['USDT-FUTURES', true],
  ['SPOT', false],
] as const)('what records all futures at once is recorded with %s: %s', async ([category, isRecorded]) => {
  const file = newFile()
  const record = ['--record', 'tickers', 'fundingForecasts', 'futuresTerms']
  const made = await runProgram(['init', '--out', file, '--category', category, ...record])
  expect(made).toMatchObject({ exitCode: 0 })
  const { fundingForecasts, futuresTerms } = configIn(file).streams
  expect([fundingForecasts.enabled, futuresTerms.enabled]).toEqual([isRecorded, isRecorded])
})

test('without decisions everything keeps its default', async () => {
  const file = newFile()
  const made = await runProgram(['init', '--out', file])
  expect(made.exitCode).toBe(0)
  expect(made.stdout).toContain('export EXCHANGE_BASE_URL=')
  expect(configIn(file)).toEqual(resolveConfig({}))
})

test('overwrites a file only when told to, and writes none that cannot be used', async () => {
  const file = newFile()
  expect((await runProgram(['init', '--out', file, '--url', 'nonsense'])).exitCode).toBe(2)
  expect((await runProgram(['init', '--out', file])).exitCode).toBe(0)
  const refused = await runProgram(['init', '--out', file])
  expect(refused).toMatchObject({ exitCode: 2 })
  expect(refused.stderr).toMatch(/^error: .* exists; give another file with --out, or overwrite it with --force\n$/)
  expect((await runProgram(['init', '--out', file, '--force'])).exitCode).toBe(0)
})

function askedInTerminal(file: string, answers: readonly string[]): string {
  const command = `${process.execPath} ${entryPoint} init --out ${file} --url ${simulator.url}`
  return spawnSync('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    input: `${answers.join('\n')}\n`,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, HOME: process.env.HOME },
  }).stdout
}

test('in a terminal, what Enter leaves out is named, and all is all', () => {
  const [usual, whole] = [newFile(), newFile()]
  expect(askedInTerminal(usual, ['', '', '', '', '', ''])).toContain(' [all but positioning futuresTerms]: ')
  expect(configIn(usual).streams).toEqual(resolveConfig({}).streams)
  askedInTerminal(whole, ['all', '', '', '', '', ''])
  const { streams } = configIn(whole)
  expect(Object.entries(streams).filter(([, { enabled }]) => !enabled)).toEqual([])
})

test('asks in a terminal, and asks again for what it does not understand', () => {
  const file = newFile()
  const stdout = askedInTerminal(file, ['fils', 'fills', '', 'BTC* ETH*', 'ten', '10', '', ''])
  expect(stdout).toContain('Unknown: fils')
  expect(stdout).toContain('Give a number of days')
  expect(configIn(file)).toMatchObject({
    streams: { candles: { enabled: false }, fills: { select: { symbols: ['BTC*', 'ETH*'] } } },
    storage: { fills: { retentionDays: 10 } },
    archive: {},
  })
})

test('a file that cannot be written is an error that says what to do', async () => {
  const { exitCode, stderr } = await runProgram(['init', '--yes', '--out', '/proc/recorder.yaml'])
  expect(exitCode).toBe(1)
  expect(stderr).toMatch(/\/proc\/recorder\.yaml cannot be written: .*; give a file in another folder with --out$/m)
})
