import { afterEach, describe, expect, test } from 'vitest'
import { Registry } from 'prom-client'
import { type PollContext, pollAndStore } from '../../../src/collect/poll/pollAndStore.js'
import { streams } from '../../../src/collect/streams/streams.js'
import { loadConfig } from '../../../src/config/resolve.js'
import type { ExchangeClient, Page } from '../../../src/exchange/client.js'
import { ExchangeError, type ExchangeErrorKind, failureTraits } from '../../../src/exchange/errors.js'
import { outcomeFor } from '../../../src/exchange/limits/circuit.js'
import type { Fill, OrderBook } from '../../../src/market/rows.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { freshnessLimits } from '../../../src/serve/freshness.js'
import { statusReport } from '../../../src/serve/reporter.js'
import { Sampler } from '../../../src/serve/sampler.js'
import { StatusMetrics } from '../../../src/serve/statusMetrics.js'
import { clientOf, envelope, type FakeService, startFakeService } from '../../support/fakeService.js'
import { pollContext } from '../../support/pollContext.js'
import { queueUnderTest } from '../../support/queueUnderTest.js'
import { freshen, settableSource } from '../../support/recorderSource.js'
import { fixture } from '../../support/oneResponse.js'
import { readRepositoryFile } from '../../support/repositoryFiles.js'

const own = queueUnderTest()

interface Row {
  readonly what: string
  readonly body: string
  readonly status: number
  /** What it means for an operation of the specification: for a list of a category, and for one instrument. */
  readonly list: ExchangeErrorKind
  readonly instrument?: ExchangeErrorKind
  /** What it means for an operation that a service may lack. */
  readonly option?: ExchangeErrorKind
}

const code = (value: string, status = 400) => ({
  what: `code ${value} with HTTP ${status}`,
  body: JSON.stringify({ code: value, msg: 'no', requestTime: 1_800_000_000_000, data: null }),
  status,
})
const page = '<html><body>Not what was asked for</body></html>'

/** Each code that the recorder knows, and each response without a code. */
const table: readonly Row[] = [
  ...['429', '25004'].map((value): Row => ({ ...code(value), list: 'rate-limited' })),
  ...['40000', '25013', '22004'].map((value): Row => ({ ...code(value), list: 'blocked' })),
  ...['45001', '40725', '40015', '25000', '25001', '25003'].map((value): Row => ({
    ...code(value),
    list: 'unavailable',
  })),
  { ...code('40404'), list: 'no-such-path', option: 'absent' },
  { ...code('30032'), list: 'retired-version' },
  { ...code('40034'), list: 'unknown-category', instrument: 'unknown-symbol' },
  { ...code('40019'), list: 'unknown-category', instrument: 'bad-request' },
  { ...code('25100'), list: 'unknown-symbol' },
  { ...code('40309'), list: 'removed-symbol' },
  { ...code('48001'), list: 'unsupported-interval' },
  ...['25101', '25102', '25104', '25105', '25108', '22056', '40844', '40845'].map((value): Row => ({
    ...code(value),
    list: 'unsupported-symbol',
  })),
  ...['400172', '40020', '40017', '40705', '25200'].map((value): Row => ({ ...code(value), list: 'bad-request' })),
  { ...code('40808'), list: 'rejected' },
  { ...code('99999'), list: 'rejected' },
  { ...code('99999', 404), list: 'no-such-path', option: 'absent' },
  { ...code('99999', 503), list: 'unavailable' },
  { ...code('403', 403), list: 'blocked' },
  { ...code('99999', 418), list: 'blocked' },
  { what: 'HTTP 429', body: '', status: 429, list: 'rate-limited' },
  { what: 'HTTP 403 with a page', body: page, status: 403, list: 'proxy-page' },
  { what: 'HTTP 403 without a page', body: 'denied', status: 403, list: 'blocked' },
  { what: 'HTTP 418', body: '', status: 418, list: 'blocked' },
  { what: 'HTTP 404 with a page', body: page, status: 404, list: 'no-such-path', option: 'perhaps-absent' },
  { what: 'HTTP 404 with nothing', body: '', status: 404, list: 'no-such-path', option: 'perhaps-absent' },
  {
    what: 'HTTP 404 with other JSON',
    body: '{"status":404}',
    status: 404,
    list: 'no-such-path',
    option: 'perhaps-absent',
  },
  { what: 'HTTP 200 with a page', body: page, status: 200, list: 'malformed', option: 'perhaps-absent' },
  { what: 'HTTP 302', body: '', status: 302, list: 'malformed' },
  { what: 'HTTP 500 with a page', body: page, status: 500, list: 'unavailable' },
  { what: 'an older envelope', body: '{"status":"error","err_code":"1"}', status: 200, list: 'malformed' },
  { what: 'an empty body', body: '', status: 200, list: 'malformed' },
  { what: 'half of a body', body: envelope('[').slice(0, -1), status: 200, list: 'malformed' },
  { what: 'a success with null', body: envelope('null'), status: 200, list: 'malformed' },
  { what: 'a response that is too large', body: 'x'.repeat(9_000_000), status: 200, list: 'too-large' },
  { what: 'rows without sense', body: envelope('[{"a":1},{"b":2}]'), status: 200, list: 'unreadable' },
]

let service: FakeService | undefined
let client: ExchangeClient | undefined
let nowMs = 0
afterEach(async () => {
  client?.close()
  await service?.close()
})

/** A poller's surroundings over a service that gives one response to everything, under a clock that a test moves. */
async function answering({ body, status }: Pick<Row, 'body' | 'status'>): Promise<PollContext> {
  const headers = body.startsWith('<') ? { 'content-type': 'text/html' } : { 'content-type': 'application/json' }
  service = await startFakeService((_request, response) => void response.writeHead(status, headers).end(body))
  client = clientOf(service.url)
  nowMs = 1_000_000
  const clock = { ...systemClock, monotonicMs: () => nowMs }
  return pollContext(own, client, new AbortController().signal, clock)
}

const key = (symbol: string) => ({ category: 'USDT-FUTURES', symbol }) as const
const never = new AbortController().signal

type Polled = 'tickers' | 'fills' | 'liquidations'
type Judged = Polled | 'order_books'

async function poll(context: PollContext, name: Polled, symbol = 'BTCUSDT') {
  // A rejection would hold the next request back.
  client?.close()
  client = clientOf(service?.url ?? '')
  const fresh = { ...context, client }
  const options = { signal: never }
  if (name === 'tickers') return pollAndStore(fresh, streams.tickers, { category: 'USDT-FUTURES' }, options)
  if (name === 'fills') return pollAndStore(fresh, streams.fills, key(symbol), options)
  return pollAndStore(fresh, streams.liquidations, key(symbol), options)
}

/** What /readyz, the status and the alert's metric say. */
async function judged(name: Judged) {
  const now = Date.now()
  const source = settableSource(now - 60_000)
  freshen(source, now)
  Object.assign(source.state.stats[name], own.stats[name], { targets: 10, lastStoredAt: now })
  const sampler = new Sampler(source, { now: () => now })
  sampler.close()
  const database = {
    isReachable: true,
    respondedAt: null,
    latencyMs: 1,
    lagMs: null,
    error: null,
    overview: null,
    jobs: null,
  }
  const limits = freshnessLimits(loadConfig({ env: {} }))
  const report = { now, nowMs, instanceId: 'i', version: 'v', source, sampler, limits, database, backfills: [] }
  const status = statusReport(report)
  const registry = new Registry()
  new StatusMetrics(registry).update(status, { backfills: [], pageClients: 0, refusedConnections: 0, lostLogLines: 0 })
  const metric = await registry.getSingleMetric('market_recorder_stream_failing')?.get()
  return {
    line: status.problems
      .filter(({ isBlocking }) => isBlocking)
      .map(({ message }) => message)
      .join(),
    state: status.streams.find((stream) => stream.name === name)?.state,
    alert: metric?.values.find(({ labels }) => labels['stream'] === name)?.value,
  }
}

const silent = { line: '', alert: 0 }
/** The line says for how long, what happened, and what to do. */
const loud = (kind: ExchangeErrorKind, advice = failureTraits[kind].advice) => ({
  line: expect.stringMatching(
    new RegExp(`USDT-FUTURES: nothing usable for 3\\d s: .*${kind}.*${escaped(advice)}$`),
  ) as string,
  state: 'failing',
  alert: 1,
})
const escaped = (text: string) => text.replaceAll(/[.*+?()]/g, String.raw`\$&`)

describe.each(table)('$what', (row) => {
  const { list, instrument = list, option = instrument } = row

  test(`is ${list} for a list: everybody sees it within half a minute`, async () => {
    const context = await answering(row)
    expect(await poll(context, 'tickers')).toMatchObject({ batch: null, failure: list })
    nowMs += 10_000
    expect(await poll(context, 'tickers')).toMatchObject({ batch: null, failure: list })
    expect(own.stats.tickers.failures).toBe(2)
    nowMs += 10_000
    expect(await judged('tickers')).toMatchObject(silent)
    nowMs += 10_000
    expect(await judged('tickers')).toEqual(loud(list))
    expect(context.incidents.recent().find(({ what }) => what === 'tickers')?.message).toContain(
      list === 'unknown-symbol' ? '' : list,
    )
  })

  test(`is ${instrument} for an instrument: seen where it is not of one alone`, async () => {
    const context = await answering(row)
    for (const symbol of ['A', 'A', 'B']) {
      expect(await poll(context, 'fills', symbol)).toMatchObject({ batch: null, failure: instrument })
      nowMs += 10_000
    }
    const isOfOne = failureTraits[instrument].isOfOne === true
    expect(await judged('fills')).toMatchObject(isOfOne ? silent : loud(instrument))
    await poll(context, 'fills', 'C')
    expect(await judged('fills')).toEqual(loud(instrument))
    expect(context.incidents.recent().find(({ what }) => what === 'fills')?.message).toContain(instrument)
  })

  test(`is ${option} for an operation that a service may lack`, async () => {
    const context = await answering(row)
    const polled = [await poll(context, 'liquidations'), await poll(context, 'liquidations', 'ETHUSDT')]
    if (option === 'absent') {
      for (const one of polled) expect(one).toMatchObject({ isKept: true, batch: { rows: [] } })
      expect(own.stats.liquidations).toMatchObject({ failures: 0 })
      expect(own.stats.liquidations.lastIdleAt).not.toBeNull()
      expect(context.incidents.recent()).toEqual([])
    } else {
      // Their rows stand in an object, so that a bare array is no page.
      const expected = option === 'unreadable' ? 'malformed' : option
      for (const one of polled) expect(one).toMatchObject({ batch: null, failure: expected })
      expect(own.stats.liquidations).toMatchObject({ failures: 2, lastIdleAt: null })
    }
    nowMs += 60_000
    expect(await judged('liquidations')).toMatchObject(silent)
  })
})

test('a list of which most rows make no sense is seen as failing, and its other rows are stored', async () => {
  const [good, bad] = ['{"symbol":"BTCUSDT"}', '{"name":"ETHUSDT"}']
  const context = await answering({ body: envelope(`[${good},${bad},${bad}]`), status: 200 })
  for (let i = 0; i < 4; i++) {
    expect(await poll(context, 'tickers')).toMatchObject({ batch: { rows: [{ symbol: 'BTCUSDT' }] }, isKept: true })
    nowMs += 10_000
  }
  const line = expect.stringContaining('unreadable: only 1 of 3 rows can be understood') as string
  expect(await judged('tickers')).toEqual({ line, state: 'failing', alert: 1 })
})

describe('the table', () => {
  test('holds every code that is known, and every kind that a response can be', () => {
    const codes = Object.values(failureTraits).flatMap((traits) => traits.codes ?? [])
    expect(codes.filter((value) => !table.some(({ what }) => what.startsWith(`code ${value} `)))).toEqual([])
    const kinds = new Set(table.flatMap(({ list, instrument, option }) => [list, instrument, option]))
    const elsewhere = ['network', 'timeout', 'aborted', 'not-sent', 'empty-list', 'wrong-clock']
    expect(
      Object.keys(failureTraits)
        .filter((kind) => !kinds.has(kind as never))
        .toSorted(),
    ).toEqual(elsewhere.toSorted())
  })

  test('opens the circuit of an operation only where it fails for all', () => {
    const fails = Object.keys(failureTraits).filter((kind) => outcomeFor(kind as ExchangeErrorKind) === 'fails')
    expect(fails.toSorted()).toEqual([
      'malformed',
      'network',
      'no-such-path',
      'proxy-page',
      'retired-version',
      'timeout',
      'too-large',
      'unavailable',
      'wrong-clock',
    ])
    const unknown = Object.keys(failureTraits).filter((kind) => outcomeFor(kind as ExchangeErrorKind) === 'unknown')
    expect(unknown.toSorted()).toEqual(['aborted', 'blocked', 'not-sent', 'rate-limited'])
  })

  test('is what the documentation says', () => {
    const text = readRepositoryFile('docs/internals/failures.md')
    const [, rows = ''] = text.split('## What a failure means')
    for (const [kind, { codes = [] }] of Object.entries(failureTraits)) {
      if (kind === 'aborted') continue
      const row = rows.split('\n').find((line) => line.startsWith(`| \`${kind}\``)) ?? ''
      expect(row, kind).not.toBe('')
      for (const value of codes) expect(row, kind).toContain(`\`${value}\``)
    }
  })
})

test('a list without a row is a failure, and one of an instrument is none', async () => {
  const context = await answering({ body: envelope('[]'), status: 200 })
  expect(await poll(context, 'tickers')).toMatchObject({ batch: null, failure: 'empty-list' })
  nowMs += 30_000
  expect(await judged('tickers')).toEqual(loud('empty-list'))
  expect(await poll(context, 'fills')).toMatchObject({ batch: { rows: [] } })
  expect(await judged('fills')).toMatchObject({ ...silent, state: 'fresh' })
})

test('empty responses of all instruments that had rows are a failure, and those of books without levels, too', async () => {
  const context = await answering({ body: fixture('fills.json'), status: 200 })
  client = clientOf(service?.url ?? '')
  const ofFills = await streams.fills.fetch(client, key('A'), { signal: never })
  const bookOf = (levels: readonly string[]): Page<OrderBook> => {
    const book = { ...ofFills.rows[0], bidPrices: levels, bidSizes: levels, askPrices: levels, askSizes: levels }
    return { ...ofFills, operation: 'orderbook', rows: [book as unknown as OrderBook] }
  }
  const round = async (fills: Page<Fill>, books: Page<OrderBook>) => {
    for (const symbol of ['A', 'B', 'C']) {
      const [options, target] = [{ signal: never }, key(symbol)]
      await pollAndStore(context, { ...streams.fills, fetch: () => Promise.resolve(fills) }, target, options)
      const bookTarget = { ...target, depth: 1 }
      await pollAndStore(context, { ...streams.order_books, fetch: () => Promise.resolve(books) }, bookTarget, options)
    }
    nowMs += 8_000
  }
  const states = async () => [(await judged('fills')).state, (await judged('order_books')).state]
  for (let i = 0; i < 5; i++) await round(ofFills, bookOf(['1']))
  for (let i = 0; i < 3; i++) await round({ ...ofFills, rows: [] }, bookOf([]))
  expect(await states()).toEqual(['fresh', 'fresh'])
  await round({ ...ofFills, rows: [] }, bookOf([]))
  expect(await states()).toEqual(['failing', 'failing'])
  expect((await judged('fills')).line).toContain('all responses are empty')
  await round(ofFills, bookOf(['1']))
  expect(await states()).toEqual(['fresh', 'fresh'])
})

test('a request that may not be sent just now is no incident: the lease says so', async () => {
  const context = await answering({ body: envelope('[]'), status: 200 })
  const failing = async (kind: ExchangeErrorKind) => {
    const error = new ExchangeError(kind, { operation: 'fills', parameters: {}, what: 'no' })
    await pollAndStore(context, { ...streams.fills, fetch: () => Promise.reject(error) }, key('BTCUSDT'), {
      signal: never,
    })
    return context.incidents.recent().length
  }
  expect(await failing('not-sent')).toBe(0)
  expect(await failing('timeout')).toBe(1)
})

test('rows that cannot be understood are kept with the reason, although they are a failure', async () => {
  const context = await answering({ body: envelope('[{"a":1},{"b":2}]'), status: 200 })
  await poll(context, 'tickers')
  await expect.poll(async () => (await own.query('select operation from recorder.rejected_row')).rows).toHaveLength(2)
  expect(own.stats.tickers).toMatchObject({ responses: 0, failures: 1 })
})

test('one row that can be understood makes a response', async () => {
  const rows = JSON.parse(fixture('fills.json')) as { data: unknown[] }
  const body = envelope(JSON.stringify([rows.data[0], { a: 1 }]))
  const context = await answering({ body, status: 200 })
  expect(await poll(context, 'fills')).toMatchObject({ isKept: true })
  expect(own.stats.fills).toMatchObject({ responses: 1, failures: 0 })
})
