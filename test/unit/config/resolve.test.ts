import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { ConfigError } from '../../../src/config/configError.js'
import { loadConfig } from '../../../src/config/resolve.js'

const folder = mkdtempSync(join(tmpdir(), 'config-'))
afterAll(() => rmSync(folder, { recursive: true }))

function write(yaml: string): string {
  const file = join(folder, 'recorder.yaml')
  writeFileSync(file, yaml)
  return file
}

function problemsOf(yaml: string, env: Record<string, string> = {}): readonly string[] {
  const file = write(yaml)
  try {
    loadConfig({ file, env })
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map((line) => line.replace(`${folder}/`, ''))
    throw error
  }
  return []
}

describe('defaults', () => {
  test('no file, an empty file, comments alone and empty groups are all the same complete configuration', () => {
    const defaults = loadConfig({ env: {} })
    expect(defaults.streams.tickers.schedule).toBe('*/5 * * * * *')
    expect(defaults.exchange.limits.perSecond['rpi-orderbook']).toBe(10)
    expect(defaults.streams.fills.select.busiest).toBe('fit')
    expect(loadConfig({ file: write(''), env: {} })).toEqual(defaults)
    expect(loadConfig({ file: write('# nothing\n'), env: {} })).toEqual(defaults)
    expect(loadConfig({ file: write('streams: {}\nexchange: {limits: {}}\n'), env: {} })).toEqual(defaults)
  })

  test('lists of defaults are not shared between configurations', () => {
    loadConfig({ env: {} }).streams.tickers.categories.length = 0
    expect(loadConfig({ env: {} }).streams.tickers.categories).toHaveLength(4)
  })

  test('an option set in a group leaves its neighbours at their defaults', () => {
    const config = loadConfig({ file: write('streams: {orderBooks: {select: {categories: [SPOT]}}}'), env: {} })
    expect(config.streams.orderBooks.select).toEqual({
      categories: ['SPOT'],
      kinds: ['crypto', 'rwa_perpetual', 'rwa_token', 'stock', 'metal', 'commodity', 'other'],
      symbols: ['*'],
      exclude: [],
      busiest: 'fit',
    })
  })
})

describe('values', () => {
  test.each(['prefix: market/', 'endpoint: "https://s3.example.com"', 'region: r', 'forcePathStyle: true'])(
    'of an archive in a bucket need the bucket: %s',
    (option) => {
      expect(problemsOf(`archive: {${option}}`).join()).toContain('must name the bucket')
      expect(problemsOf(`archive: {bucket: market-archive, ${option}}`)).toEqual([])
    },
  )

  test('a turnover may be written as a number and stays a decimal text', () => {
    const turnover = (text: string) =>
      loadConfig({ file: write(`streams: {fills: {select: {minTurnover24h: ${text}}}}`), env: {} }).streams.fills.select
        .minTurnover24h
    expect(turnover('1000000')).toBe('1000000')
    expect(turnover('"0.10"')).toBe('0.10')
    expect(turnover('0.0000001')).toBe('0.0000001')
  })

  test('busiest takes a number, fit or all', () => {
    const busiest = (text: string) =>
      loadConfig({ file: write(`streams: {candles: {select: {busiest: ${text}}}}`), env: {} }).streams.candles.select
        .busiest
    expect(busiest('7')).toBe(7)
    expect(busiest('fit')).toBe('fit')
    expect(busiest('all')).toBe(Infinity)
  })

  test.each(['//', '/api/v3', '/api/v3/'])("%s at the end of the service's address does not count", (end) => {
    const config = loadConfig({ env: { EXCHANGE_BASE_URL: `http://127.0.0.1:9000${end}` } })
    expect(config.exchange.baseUrl).toBe('http://127.0.0.1:9000')
  })
})

describe('environment', () => {
  test('takes precedence over the file, unless it is empty', () => {
    const file = write('database: {url: "postgres://a@h/from_file", dataDir: here}\nlog: {level: warn}')
    const config = loadConfig({ file, env: { DATABASE_URL: 'postgresql://b@h/from_env', LOG_LEVEL: '' } })
    expect(config.database.url).toBe('postgresql://b@h/from_env')
    expect(config.database.dataDir).toBe('here')
    expect(config.log.level).toBe('warn')
  })

  test('tells the recorders of one file apart', () => {
    const env = { COLLECTOR_EGRESS: 'host-2', EXCHANGE_LOCAL_ADDRESS: '127.0.0.2', SERVE_PORT: '8082' }
    expect(loadConfig({ env })).toMatchObject({
      collector: { egress: 'host-2' },
      exchange: { localAddress: '127.0.0.2' },
      serve: { port: 8082 },
    })
    expect(() => loadConfig({ env: { SERVE_PORT: 'http' } })).toThrow(/SERVE_PORT/)
  })

  test('names a file that holds the connection string', () => {
    const path = join(folder, 'url')
    writeFileSync(path, 'postgresql://a:b@127.0.0.1/market\n')
    const url = (env: Record<string, string>) => loadConfig({ env }).database.url
    expect(url({ DATABASE_URL_FILE: path })).toBe('postgresql://a:b@127.0.0.1/market')
    expect(url({ DATABASE_URL_FILE: path, DATABASE_URL: 'postgresql://c@127.0.0.1/d' })).toBe(
      'postgresql://c@127.0.0.1/d',
    )
    expect(url({ DATABASE_URL_FILE: '' })).toBeUndefined()
    expect(() => url({ DATABASE_URL_FILE: join(folder, 'nowhere') })).toThrow(ConfigError)
    // Not yet written by whoever makes the secret. Without the option, an embedded database would be recorded into.
    writeFileSync(path, '\n')
    expect(() => url({ DATABASE_URL_FILE: path })).toThrow('DATABASE_URL_FILE: it is empty; give it the path')
  })

  test('a wrong value names the variable, and a connection string is never repeated', () => {
    const problems = problemsOf('', { DATABASE_URL: 'mysql://user:hunter2@host/db', LOG_LEVEL: 'loud' })
    expect(problems).toHaveLength(2)
    expect(problems[0]).toMatch(/^DATABASE_URL: database\.url must be a connection string such as postgres:/)
    expect(problems.join()).not.toContain('hunter2')
    expect(problemsOf('', { DATABASE_READ_URL: 'mysql://user:hunter2@host/db' }).join()).not.toContain('hunter2')
    expect(problems[1]).toMatch(/^LOG_LEVEL: log\.level must be one of trace, debug, .*, not "loud"; correct it/)
  })
})

describe('problems', () => {
  test.each([
    [
      'database:\n  data_dir: here',
      'recorder.yaml:2: database.data_dir is not an option; options here are url, readUrl, dataDir; correct or remove it',
    ],
    [
      '\nzzzzzz: 1',
      'recorder.yaml:2: zzzzzz is not an option; options here are database, exchange, collector, streams, storage, archive, serve, log; correct or remove it',
    ],
    [
      'streams:\n  tickers:\n    enabled: yes',
      'recorder.yaml:3: streams.tickers.enabled must be true or false, not "yes"; correct it or leave it out for the default, true',
    ],
    [
      'streams:\n  orderBooks:\n    depth: 1001',
      'recorder.yaml:3: streams.orderBooks.depth must be at most 1000, not 1001; correct it or leave it out for the default, 50',
    ],
    [
      'streams:\n  candles:\n    intervals:\n      - 1m\n      - 7m',
      'recorder.yaml:5: streams.candles.intervals[1] must be one of 1m, 3m, 5m, 15m, 30m, 1H, 4H, 6H, 12H, 1D, 3D, 1W, 6Hutc, 12Hutc, 1Dutc, 3Dutc, 1Wutc, not "7m"; correct it or leave it out',
    ],
    ['exchange: 3', 'recorder.yaml:1: exchange must be a group of options; correct it or leave it out'],
    ['- a', 'recorder.yaml: the file must be a group of options, but is a list; correct it or leave it out'],
    [
      'serve:\n  port:',
      'recorder.yaml:2: serve.port must be a whole number, but is empty; correct it or leave it out for the default, 8080',
    ],
  ])('%j', (yaml, line) => {
    expect(problemsOf(yaml)).toEqual([line])
  })

  test.each([
    ['five fields', '"*/5 * * * *"'],
    ['a wrong field', '"61 * * * * *"'],
    ['a nickname', '"@daily"'],
    ['nonsense', 'often'],
  ])('a schedule of %s is refused', (_, schedule) => {
    expect(problemsOf(`streams: {tickers: {schedule: ${schedule}}}`).join()).toContain(
      'must be a cron expression of six fields',
    )
  })

  test.each([
    [
      'exchange: {limits: {perSecond: {fill: 9}}}',
      'exchange.limits.perSecond.fill is not an option; options here are ',
    ],
    ['streams: {fills: {select: {symbol: [A]}}}', 'streams.fills.select.symbol is not an option; options here are '],
    ['streams: {fills: {select: {categories: [MARGIN]}}}', 'must be one of SPOT, USDT-FUTURES'],
    ['streams: {tickers: {categories: [SPOT, SPOT]}}', 'must not name anything twice'],
    ['streams: {tickers: {categories: [MARGIN]}}', 'must be one of SPOT, USDT-FUTURES'],
    ['streams: {tickers: {categories: []}}', 'must not be empty'],
    ['streams: {candles: {select: {busiest: some}}}', 'must be a whole number, or fit, all, not "some"'],
    ['streams: {candles: {select: {busiest: 0}}}', 'must be at least 1, not 0'],
    ['streams: {candles: {select: {minTurnover24h: lots}}}', 'must be a decimal number'],
    ['exchange: {baseUrl: "ftp://x"}', 'must be an http or https URL'],
    ['exchange: {localAddress: example.com}', 'must be an IP address of this machine'],
    ['exchange: {proxy: "socks5://x"}', 'must be an http or https URL'],
  ])('%s', (yaml, part) => {
    const problems = problemsOf(yaml)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(part)
  })

  test('all are listed at once, each on one line', () => {
    const problems = problemsOf('log: {levle: info}\nserve: {port: 70000}\ncollector: {egresses: "many\\nlines"}')
    expect(problems).toHaveLength(3)
    expect(problems.every((line) => !line.includes('\n'))).toBe(true)
  })

  test.each([
    ['collector: {egress: "\\0abc"}', 'recorder.yaml:1: collector.egress must not have control'],
    [
      'streams:\n  fills:\n    select:\n      symbols: [A, "B\\e"]',
      'recorder.yaml:4: streams.fills.select.symbols[1] must',
    ],
    ['"a\\nb": 1', 'recorder.yaml:1: a key of the file is not an option; '],
    ['streams: {"a\\nb": 1}', 'recorder.yaml:1: a key of streams is not an option; '],
    [
      'exchange: {proxy: "http://u:p%@h"}',
      'recorder.yaml:1: exchange.proxy must spell a percent sign as %25, not "http://h"',
    ],
    ['exchange: {baseUrl: "http://u%ff@h"}', 'recorder.yaml:1: exchange.baseUrl must spell a percent sign as %25'],
  ])('what would fail later is said in one line: %s', (yaml, beginning) => {
    const problems = problemsOf(yaml)
    expect(problems).toHaveLength(1)
    expect(problems[0]?.startsWith(beginning), problems[0]).toBe(true)
    expect(problems[0]).not.toContain('\n')
  })

  test('in the environment, too', () => {
    expect(problemsOf('', { COLLECTOR_EGRESS: 'a\u0007b' })).toEqual([
      'COLLECTOR_EGRESS: collector.egress must not have control characters; remove them',
    ])
    expect(problemsOf('', { EXCHANGE_PROXY: 'http://u:p%zz@h' }).join()).toMatch(
      /^EXCHANGE_PROXY: exchange\.proxy must/,
    )
  })

  test('broken YAML says where', () => {
    expect(problemsOf('streams:\n  tickers: [1\nlog: {}')[0]).toMatch(/^recorder\.yaml:\d:\d: .*; correct the YAML/)
    expect(problemsOf('log: {}\nlog: {}')).toEqual([
      'recorder.yaml:2:1: duplicate key; correct the YAML, texts with special signs in quotes',
    ])
  })

  test('a document that would expand without bound is refused', () => {
    const levels = Array.from({ length: 12 }, (_, n) => `a${n + 1}: &a${n + 1} [${`*a${n},`.repeat(9)}]`)
    expect(problemsOf(['a0: &a0 [x]', ...levels].join('\n')).join()).toContain('remove the aliases')
  })

  test('of very many, the first are listed and the others counted', () => {
    const problems = problemsOf(Array.from({ length: 1_000 }, (_, n) => `nothing${n}: 1`).join('\n'))
    expect(problems).toHaveLength(51)
    expect(problems[0]).toContain('recorder.yaml:1: nothing0 is not an option')
    expect(problems.at(-1)).toBe('and 950 more problems; correct these first')
    expect(problemsOf('\t- }{\n'.repeat(1_000))).toHaveLength(51)
  })

  test('a file is read up to a bound', () => {
    const comment = `# ${'x'.repeat(524_288 - 3)}\n`
    expect(problemsOf(comment)).toEqual([])
    expect(problemsOf(`${comment}#`)).toEqual([
      `recorder.yaml: it is larger than 524288 bytes; give --config the path of a readable YAML file`,
    ])
  })

  test('what has no end is no file', () => {
    const pipe = join(folder, 'pipe')
    execFileSync('mkfifo', [pipe])
    for (const file of [pipe, '/dev/zero', folder]) {
      expect(() => loadConfig({ file, env: {} })).toThrow(`${file}: it is no regular file; give --config`)
      expect(() => loadConfig({ env: { SERVE_PASSWORD_FILE: file } })).toThrow(
        'SERVE_PASSWORD_FILE: it is no regular file; ',
      )
    }
  })

  test('a file that cannot be read', () => {
    expect(() => loadConfig({ file: join(folder, 'missing.yaml'), env: {} })).toThrow(
      /missing\.yaml: there is no such file; give --config the path of a readable YAML file$/,
    )
  })
})
