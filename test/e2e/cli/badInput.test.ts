import { existsSync } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../support/database.js'
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
    [
      'an unknown key',
      'streams: { orderBook: { depth: 5 } }',
      /streams\.orderBook is not an option; options here are .*orderBooks/,
    ],
    ['an unsupported interval', 'streams: { candles: { intervals: [7m] } }', /streams\.candles\.intervals/],
    ['broken YAML', 'streams: [', /recorder\.yaml/],
    ['a name that turns the line', 'streams: { "fi\u202ells": {} }', /a key of streams is not an option/],
    ['a value that turns the line', 'log: { level: "\u202e" }', /not "\\u202e"/],
    ['no service', 'log: { level: info }', /exchange\.baseUrl.*EXCHANGE_BASE_URL/],
  ] as const)('%s', async ([, yaml, pattern]) => {
    const finished = await withConfig(yaml)
    expectOneClearLine(finished, pattern)
    expect(finished.exitCode).toBe(2)
  })

  test.for([
    ['an unknown command', ['strat']],
    ['an unknown option', ['start', '--fast']],
    ['an option that turns the line', ['start', '--\u202etsaf']],
    ['a missing argument', ['query']],
    ['a wrong number', ['demo', '--for', 'ever']],
    [
      'a range that ends before it begins',
      'backfill --category SPOT --symbol X --interval 1m --from 2026-02-01 --to 2026-01-01'.split(' '),
    ],
    ['nothing to export', ['export', '--out', 'out']],
  ] as const)('%s', async ([, args]) => {
    const { exitCode, stderr } = await runProgram(args)
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/^error: /)
    expect(stderr).not.toContain('\u202e')
    expect(stderr).not.toMatch(/^\s+at /m)
  })
})

test('what to export, taken by the option before it, is said', async () => {
  const finished = await runProgram(['export', '--out', 'out', '--from', '2026-01-01', '--symbol', 'BTCUSDT', 'fills'])
  expect(finished.exitCode).toBe(2)
  expectOneClearLine(finished, /what to export is missing; --symbol took "fills".*Give it first/)
})

describe('where nothing was recorded, nothing is made', () => {
  test.for([
    ['gaps', ['gaps']],
    ['status', ['status', '--url', 'http://127.0.0.1:9']],
    ['query', ['query', 'select 1']],
    ['verify', ['verify']],
    ['export', ['export', 'fills', '--from', '2026-01-01', '--out', 'out']],
    ['migrate --dry-run', ['migrate', '--dry-run']],
  ] as const)('%s', async ([, args]) => {
    const dataDir = join(folder, 'mistyped')
    const finished = await runProgram([...args, '--data-dir', dataDir])
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(
      finished,
      /there is no database in .*mistyped; run this where the recorder was started, or give --data-dir/,
    )
    expect(existsSync(dataDir)).toBe(false)
  })

  test('the doctor says what a start does', async () => {
    const dataDir = join(folder, 'mistyped')
    const env = { EXCHANGE_BASE_URL: 'http://127.0.0.1:9' }
    const { stdout } = await runProgram(['doctor', '--data-dir', dataDir], env)
    expect(stdout).toMatch(/^ok +database +none yet.*start/m)
    expect(existsSync(dataDir)).toBe(false)
  })
})

/** A start that does not mind who else is on this machine. */
const anyPort = 'any-port.yaml'

describe('a folder that takes none, such as /proc, is an error soon', () => {
  test.for([
    ['demo', ['demo'], {}],
    ['start', ['start', '--wait', '--config', anyPort], {}],
    [
      'start with a database elsewhere',
      ['start', '--wait', '--config', anyPort],
      { DATABASE_URL: 'postgres://recorder@127.0.0.1:9/market' },
    ],
  ] as const)('%s', async ([, args, env]) => {
    await writeFile(join(folder, anyPort), 'serve: { port: 0 }')
    const service = { EXCHANGE_BASE_URL: 'http://127.0.0.1:9', ...env }
    const given = args.map((arg) => (arg === anyPort ? join(folder, anyPort) : arg))
    const finished = await runProgram([...given, '--data-dir', '/proc/none'], service)
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /\/proc\/none/)
  })

  test('doctor', async () => {
    const { exitCode, stdout } = await runProgram(['doctor', '--data-dir', '/proc/none'])
    expect(exitCode).toBe(1)
    expect(stdout).toMatch(/^FAIL +disk +nothing can be written to \/proc\/none: /m)
  })
})

describe('what cannot be reached is said in one line, exit code 1', () => {
  test('an unreachable database', async () => {
    const env = { DATABASE_URL: 'postgres://recorder:secret@127.0.0.1:9/market' }
    const finished = await runProgram(['migrate'], env)
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /127\.0\.0\.1:9.*start the server/)
    expect(finished.stderr).not.toContain('secret')
  })

  test('a wrong password of a database that is there, by a start that would wait for one that is not', async () => {
    const file = join(folder, 'refused.yaml')
    await writeFile(file, 'exchange: { baseUrl: "http://127.0.0.1:9" }\nserve: { port: 0 }')
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
    const finished = await withConfig('{ exchange: { baseUrl: "http://127.0.0.1:9" }, serve: { port: 0 } }')
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

  test('a mistake in SQL, with its line, a caret and what PostgreSQL advises', async () => {
    const env = { DATABASE_URL: database.url }
    const syntax = await runProgram(['query', '/* first */\nselect symbol\nfron market.fills limit 5'], env)
    expectOneClearLine(syntax, /^error: database: syntax error/)
    expect(syntax.stderr).toMatch(/^line 3: fron market\.fills limit 5\n {13}\^$/m)
    const column = await runProgram(['query', 'select symbl from market.fills'], env)
    expectOneClearLine(column, /Perhaps you meant to reference the column/)
    expect(column.stderr).toMatch(/^line 1: select symbl from market\.fills\n {15}\^$/m)
    expectOneClearLine(await runProgram(['query', 'select 1; select 2'], env), /give one statement/)
  })

  test.for([
    [
      'query',
      ['query', 'select * from market.fils'],
      /relation "market\.fils" does not exist; the relations of schema market are .*fills/,
    ],
    [
      'export',
      ['export', 'candle', '--out', 'out', '--from', '2026-01-01'],
      /the relations of schema market are .*candles/,
    ],
    ['another schema', ['query', 'select * from nowhere.else_'], /relations of schema market are candle_revisions, /],
  ] as const)('a misspelt relation: %s', async ([, args, pattern]) => {
    const finished = await runProgram(args, { DATABASE_URL: database.url })
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, pattern)
    expect(finished.stderr).not.toContain('migrate')
  })

  test.for([
    ['query', ['query', 'select * from market.fills']],
    ['status', ['status', '--url', 'http://127.0.0.1:9']],
    ['verify', ['verify']],
  ] as const)('a database without our tables: %s', async ([, args]) => {
    const empty = await createEmptyDatabase()
    try {
      const finished = await runProgram(args, { DATABASE_URL: empty.url })
      expect(finished.exitCode).toBe(1)
      expectOneClearLine(finished, /no tables of the recorder; run npx market-recorder migrate/)
    } finally {
      await empty.drop()
    }
  })

  test('a backfill without a service creates no database', async () => {
    const series = ['--category', 'SPOT', '--symbol', 'BTCUSDT', '--interval', '1m', '--from', '2026-11-01']
    const finished = await runProgram(['backfill', '--data-dir', join(folder, 'none'), ...series], {})
    expectOneClearLine(finished, /there is no database in .*none; run this where the recorder was started/)
    expect(await readdir(folder)).not.toContain('none')
  })

  test('neither recorder nor database, each named once', async () => {
    const env = { DATABASE_URL: 'postgres://recorder@127.0.0.1:9/market' }
    const finished = await runProgram(['status', '--url', 'http://127.0.0.1:1'], env)
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /no recorder .*; database: .*127\.0\.0\.1:9; .*start the server/)
    expect(finished.stderr.split('127.0.0.1:9')).toHaveLength(2)
  })

  test('a statement that writes', async () => {
    const finished = await runProgram(['query', 'delete from market.fills'], { DATABASE_URL: database.url })
    expect(finished.exitCode).toBe(1)
    expectOneClearLine(finished, /only one statement that reads/)
  })
})
