import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type Finished, runProgram } from '../../support/program.js'

let folder: string
let database: TestDatabase
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-input-'))
  database = await createTestDatabase()
})
afterAll(async () => {
  await database.drop()
  await rm(folder, { recursive: true, force: true })
})

async function withConfig(yaml: string): Promise<Finished> {
  const file = join(folder, 'recorder.yaml')
  await writeFile(file, yaml)
  return runProgram(['start', '--config', file], { DATABASE_URL: database.url })
}

/** One line for each problem, that starts as errors do and is no stack trace. */
function expectOneClearLine({ stderr }: Finished, pattern: RegExp): void {
  const lines = stderr.trim().split('\n')
  expect(stderr).not.toMatch(/^\s+at /m)
  expect(lines.filter((line) => line.startsWith('error: '))).toHaveLength(1)
  expect(stderr).toMatch(pattern)
}

describe('what is wrong with the configuration is said in one line, exit code 2', () => {
  test.for([
    ['a wrong type', 'streams: { orderBooks: { depth: many } }', /streams\.orderBooks\.depth/],
    ['an unknown key', 'streams: { orderBook: { depth: 5 } }', /orderBook.*did you mean.*orderBooks/],
    ['an unsupported interval', 'streams: { candles: { intervals: [7m] } }', /streams\.candles\.intervals/],
    ['broken YAML', 'streams: [', /recorder\.yaml/],
    ['no service', 'log: { level: info }', /exchange\.baseUrl.*EXCHANGE_BASE_URL/],
  ] as const)('%s', async ([, yaml, pattern]) => {
    const finished = await withConfig(yaml)
    expectOneClearLine(finished, pattern)
    expect(finished.exitCode).toBe(2)
  })

  test.for([
    ['an unknown command', ['strat']],
    ['an unknown option', ['start', '--fast']],
    ['a missing argument', ['query']],
    ['a wrong number', ['demo', '--for', 'ever']],
    [
      'a range that ends before it begins',
      'backfill --category SPOT --symbol X --interval 1m --from 2026-02-01 --to 2026-01-01'.split(' '),
    ],
  ] as const)('%s', async ([, args]) => {
    const { exitCode, stderr } = await runProgram(args)
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/^error: /)
    expect(stderr).not.toMatch(/^\s+at /m)
  })
})

describe('what cannot be reached is said in one line, exit code 1', () => {
  const service = 'exchange: { baseUrl: "http://127.0.0.1:9" }'

  test('an unreachable database', async () => {
    const env = { DATABASE_URL: 'postgres://recorder:secret@127.0.0.1:9/market' }
    const finished = await runProgram(['migrate'], env)
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /127\.0\.0\.1:9.*is the server running/)
    expect(finished.stderr).not.toContain('secret')
  })

  test('a wrong password of a database that is there, by a start that would wait for one that is not', async () => {
    const file = join(folder, 'refused.yaml')
    await writeFile(file, service)
    const url = new URL(database.url)
    url.password = 'not-the-password'
    const finished = await runProgram(['start', '--config', file, '--wait'], { DATABASE_URL: url.href })
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /password.*DATABASE_URL/)
  })

  test('a wrong password', async () => {
    const url = new URL(database.url)
    url.password = 'not-the-password'
    const finished = await runProgram(['query', 'select 1'], { DATABASE_URL: url.href })
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /password.*DATABASE_URL/)
    expect(finished.stderr).not.toContain('not-the-password')
  })

  test('an unreachable service', async () => {
    const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
    const finished = await runProgram(['start'], env)
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /connection refused.*exchange\.baseUrl.*--wait/)
  })

  test('an unreachable service, by the doctor', async () => {
    const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
    const { exitCode, stdout, stderr } = await runProgram(['doctor'], env)
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^FAIL +service +.*connection refused/m)
    expect(stdout).toMatch(/^ok +database/m)
    expect(stderr).toBe('')
  })

  test('a statement with a mistake', async () => {
    const finished = await runProgram(['query', 'select nonsense'], { DATABASE_URL: database.url })
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /nonsense/)
  })

  test('a statement that writes', async () => {
    const finished = await runProgram(['query', 'delete from market.fills'], { DATABASE_URL: database.url })
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /only one statement that reads/)
  })
})
