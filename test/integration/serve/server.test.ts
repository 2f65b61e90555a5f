import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { Status } from '../../../src/serve/api/contract.js'
import type { RunningServer } from '../../../src/serve/server.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { untilSomebodyWaits } from '../../support/lockWait.js'
import { freshen, serveSource, settableSource, type SettableSource } from '../../support/recorderSource.js'
import { startTcpProxy, type TcpProxy } from '../../support/tcpProxy.js'

let created: TestDatabase
let proxy: TcpProxy
let server: RunningServer
beforeAll(async () => {
  created = await createTestDatabase()
  proxy = await startTcpProxy(created.url)
})
afterEach(() => server.close())
afterAll(async () => {
  await proxy?.close()
  await created?.drop()
})

async function serve(change: (source: SettableSource) => SettableSource = (source) => source): Promise<void> {
  const source = settableSource(Date.now() - 60_000)
  freshen(source, Date.now())
  server = await serveSource(change(source), proxy.through(created.url))
}

const get = (path: string) => fetch(server.url + path, { signal: AbortSignal.timeout(120_000) })
const status = async () => (await (await get('/api/status')).json()) as Status
/** Asks for so much at once that the page opens all of its connections. */
const askMuch = () => Promise.all(['a', 'b', 'c', 'd', 'e', 'f'].map((name) => get(`/api/instruments?search=${name}`)))

test('the status comes although the backfills cannot be read', async () => {
  await serve((source) => ({ ...source, backfills: () => new Promise(() => undefined) }))
  expect((await status()).backfills).toEqual([])
  expect((await get('/metrics')).status).toBe(200)
})

test('the metrics are of all backfills, also of those that wait or are not shown', async () => {
  const work = { what: 'x', reachedAt: null, message: null }
  const metrics = async () =>
    (await (await get('/metrics')).text()).match(/backfill_(done_ratio|eta_seconds) [\d.]+$/gm)
  await serve()
  expect(await metrics()).toEqual(['backfill_done_ratio 1', 'backfill_eta_seconds 0'])
  await server.close()
  await serve((source) => {
    for (let id = 1; id <= 31; id++) {
      const doneShare = id === 31 ? 0 : 1
      source.state.backfills.push({ ...work, id: `${id}`, state: 'running', doneShare, etaMs: id * 1000 })
    }
    source.state.backfills.push({ ...work, id: '32', state: 'waiting', doneShare: 0, etaMs: null })
    source.state.backfills.push({ ...work, id: '33', state: 'failed', doneShare: null, etaMs: null })
    return source
  })
  expect(await metrics()).toEqual(['backfill_done_ratio 0.9375', 'backfill_eta_seconds 31'])
})

test('requests that the database holds up do not make it count as away', async () => {
  await serve()
  const blocking = await created.database.pool.connect()
  await blocking.query('begin; lock table market.instruments in access exclusive mode')
  const held = askMuch()
  try {
    await untilSomebodyWaits(created.database.db)
    expect(await (await get('/readyz')).json()).toEqual({ ok: true, reasons: [], notices: [] })
  } finally {
    await blocking.query('rollback')
    blocking.release()
  }
  // Those that a busy machine held up for as long as a statement may take have failed.
  for (const { status: code } of await held) expect([200, 503]).toContain(code)
  for (const { status: code } of await askMuch()) expect(code).toBe(200)
})

test('connections that fall silent are replaced', async () => {
  await serve()
  await askMuch()
  proxy.forget()
  await expect.poll(async () => (await status()).database.isReachable).toBe(true)
  const codes = async () => new Set((await askMuch()).map(({ status: code }) => code))
  await expect.poll(codes).toEqual(new Set([200]))
})
