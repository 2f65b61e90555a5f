import { cp } from 'node:fs/promises'
import { describe, expect, test, vi } from 'vitest'
import { countRows } from '../../../src/ledger/read/overview.js'
import { marketTables } from '../../../src/market/stream.js'
import { packageFile } from '../../../src/runtime/process.js'
import { aBook, aCandle, aFill, aTicker } from '../../support/marketRows.js'
import { batchOf } from '../../support/batches.js'
import { at, queueUnderTest } from '../../support/queueUnderTest.js'

const own = queueUnderTest()

describe('the spool', () => {
  test('left by a recorder that ended is stored by the next one, before what comes then', async () => {
    await own.goOn(1, 2)
    await own.proxy.refuse()
    await own.goOn(3, 10)
    await own.closeQueue()
    await own.proxy.restore()
    await own.openQueue()
    expect(own.queue.backlog().isSpooling).toBe(true)
    await own.goOn(11, 12)
    await own.isStored(13)
    expect((await own.query('select * from recorder_page.gap')).rows).toEqual([])
  })

  test('of a former commit is stored by the present one, rows of every stream', async () => {
    await own.closeQueue()
    await cp(packageFile('test/fixtures/spool'), own.folder, { recursive: true })
    await own.query(`truncate ${marketTables.map((table) => `market.${table}`).join()}`)
    await own.openQueue()
    await expect.poll(() => own.queue.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false })
    expect(await countRows(own.database.database.db)).toMatchObject({
      instruments: 14,
      rpi_symbols: 5,
      tickers: 13,
      order_books: 3,
      rpi_order_books: 1,
      fills: 100,
      candles: 6,
      funding_rates: 100,
      funding_forecasts: 4,
      liquidations: 99,
    })
    expect((await own.query('select from recorder.rejected_row')).rows).toEqual([])
    expect((await own.query('select from recorder_page.gap')).rows).toEqual([])
    expect(own.lines).toEqual([])
  })

  test('goes by nothing that was stored before the database was away: another one may have come back', async () => {
    await own.goOn(1, 2)
    // The newest millisecond is not claimed: the database agrees with itself.
    await own.query(`delete from market.fills where exec_id = '2'`)
    await own.proxy.refuse()
    const rows = [3, 2, 1].map((id) => aFill({ execId: String(id), ts: at + id * 1_000 }))
    await own.queue.write(batchOf('fills', { category: 'SPOT', symbol: 'BTCUSDT' }, rows, at + 3_000))
    await own.proxy.restore()
    await own.isStored(4)
  })

  test('full: what can be fetched again goes first, every drop is counted, and of snapshots becomes a gap', async () => {
    await own.closeQueue()
    await own.openQueue({ maxBytes: 60_000 })
    await own.proxy.refuse()
    const noise = (index: number) =>
      Array.from({ length: 40 }, (_, i) => String(Math.abs(Math.sin(index * 100 + i))).replaceAll(/\D/g, '')).join('')
    const candles = (index: number) =>
      batchOf(
        'candles',
        { category: 'SPOT', symbol: 'BTCUSDT', type: 'market', interval: '1m' },
        [aCandle({ openTime: at - (at % 60_000) + index * 60_000, isClosed: true, open: `0.${noise(index)}` })],
        at + index * 60_000,
      )
    const tickers = (index: number) =>
      batchOf(
        'tickers',
        { category: 'SPOT' },
        [aTicker({ ts: at + index * 1_000, lastPrice: `0.${noise(index)}` })],
        at + index * 1_000,
      )
    for (let index = 0; index < 60; index++) await own.queue.write(candles(index))
    for (let index = 0; index < 60; index++) await own.queue.write(tickers(index))
    expect(own.stats.candles.rowsDropped).toBeGreaterThan(0)
    expect(own.stats.tickers.rowsDropped).toBe(0)
    for (let index = 60; index < 300; index++) await own.queue.write(tickers(index))
    const { candles: c, tickers: t } = {
      candles: own.stats.candles.rowsDropped,
      tickers: own.stats.tickers.rowsDropped,
    }
    // All but what is being read for a try of the database.
    expect(c).toBeGreaterThan(50)
    expect(t).toBeGreaterThan(0)
    expect(own.queue.backlog().spooledBytes).toBeLessThan(80_000)
    await own.proxy.restore()
    await vi.waitFor(() => expect(own.queue.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false }), {
      timeout: 120_000,
    })
    const { rows: kept } = await own.query('select extract(epoch from ts) * 1000 as ts from market.tickers')
    expect(kept).toHaveLength(300 - t)
    const { rows: gaps } = await own.query(
      `select stream, symbol, state, extract(epoch from lower(range)) * 1000 as "from", extract(epoch from upper(range)) * 1000 as "to"
       from recorder_page.gap order by 1, 4`,
    )
    const inGap = (stream: string, ts: number) =>
      gaps.some((gap) => gap['stream'] === stream && Number(gap['from']) <= ts && ts < Number(gap['to']))
    const keptAt = new Set(kept.map(({ ts }) => Number(ts)))
    const isKept = (index: number) => keptAt.has(at + index * 1_000)
    for (let index = 0; index < 300; index++) expect(isKept(index) || inGap('tickers', at + index * 1_000)).toBe(true)
    expect(inGap('tickers', at + 299_000)).toBe(false)
    // What is missing of candles is what is not proven.
    expect(gaps.filter(({ stream }) => stream !== 'tickers')).toEqual([])
    expect(
      gaps
        .filter(({ stream }) => stream === 'tickers')
        .every(({ symbol, state }) => symbol === '*' && state === 'lost'),
    ).toBe(true)
  })

  test('with an order book that the database refuses stores the others, though they are brought together', async () => {
    await own.query('truncate market.order_books')
    await own.proxy.refuse()
    await own.goOn(1, 1)
    const books = booksOfWhich(17)
    for (const book of books) await own.queue.write(book)
    await own.proxy.restore()
    await own.isStored(2)
    const { rows } = await own.query('select extract(epoch from ts) * 1000 as ts from market.order_books order by 1')
    expect(rows.map(({ ts }) => Number(ts) - at)).toEqual(books.map((_, i) => i).filter((i) => i !== 17))
    const rejected = await own.query('select operation, parameters from recorder.rejected_row')
    expect(rejected.rows).toMatchObject([{ operation: 'orderbook', parameters: { symbol: 'BTCUSDT' } }])
    const { rowsWritten, rowsUnchanged, rowsRejected } = own.stats.order_books
    // On a busy machine a response can take too long: then its rows are stored once more, and have not changed.
    expect(rowsWritten).toBeLessThanOrEqual(29)
    expect(rowsWritten + rowsUnchanged).toBeGreaterThanOrEqual(29)
    expect(rowsRejected).toBeGreaterThanOrEqual(1)
  })

  test('counts what is stored although the connection ends before the rest of what was brought together', async () => {
    await own.query('truncate market.order_books')
    await own.query('create sequence times_stored')
    await own.query(`create function break_connection() returns trigger language plpgsql as $$
      begin
        if new.ts = to_timestamp(${at + 25} / 1000.0) and nextval('times_stored') = 1 then
          perform pg_terminate_backend(pg_backend_pid());
        end if;
        return new;
      end $$`)
    await own.query(
      'create trigger break_connection before insert on market.order_books for each row execute function break_connection()',
    )
    try {
      await own.proxy.refuse()
      await own.goOn(1, 1)
      for (const book of booksOfWhich(17)) await own.queue.write(book)
      await own.proxy.restore()
      await own.isStored(2)
      const { rows } = await own.query('select last_value from times_stored')
      expect(Number(rows[0]?.['last_value'])).toBeGreaterThan(1)
      expect((await own.query('select from market.order_books')).rows).toHaveLength(29)
      expect(own.stats.order_books.rowsWritten).toBeGreaterThan(24)
    } finally {
      await own.query('drop trigger break_connection on market.order_books')
      await own.query('drop function break_connection')
      await own.query('drop sequence times_stored')
    }
  })

  test('on a disk that takes nothing: what neither disk nor database takes is counted and noted, and it goes on', async () => {
    await own.goOn(1, 2)
    await own.proxy.refuse()
    await own.breakDisk()
    const tickers = (index: number) =>
      batchOf('tickers', { category: 'SPOT' }, [aTicker({ ts: at + index * 1_000 })], at + index * 1_000)
    for (let index = 1; index <= 3; index++) expect(await own.queue.write(tickers(index))).toBe(false)
    expect(own.stats.tickers.rowsDropped).toBe(3)
    expect(own.lines.some((line) => line.startsWith('spool: no folder can be made at'))).toBe(true)
    expect(own.lines.some((line) => line.startsWith('lost responses: tickers: neither the database'))).toBe(true)
    await own.proxy.restore()
    await vi.waitFor(
      async () => {
        // An attempt that comes too soon is lost like the one before, and widens no gap.
        expect(await own.queue.write(tickers(3))).toBe(true)
        expect(own.queue.backlog().isSpooling).toBe(false)
        expect((await own.query('select * from market.tickers')).rows).toHaveLength(1)
        const { rows } = await own.query(
          `select extract(epoch from lower(range)) * 1000 as "from", extract(epoch from upper(range)) * 1000 as "to"
           from recorder_page.gap`,
        )
        expect(rows.map(({ from, to }) => [Number(from), Number(to)])).toEqual([[at + 1_000, at + 3_001]])
      },
      { timeout: 120_000 },
    )
  })

  test('fills that were dropped leave a gap exactly where the next answer does not follow on', async () => {
    await own.goOn(1, 2)
    // Two answers of which the second does not follow on: what was between them had been dropped.
    const full = (newest: number) =>
      batchOf(
        'fills',
        { category: 'SPOT', symbol: 'BTCUSDT' },
        Array.from({ length: 100 }, (_, i) => aFill({ execId: String(newest - i), ts: at + (newest - i) * 1_000 })),
        at + newest * 1_000,
      )
    await own.queue.write(full(90))
    await own.queue.write(full(500))
    const gaps = async () => {
      const { rows } = await own.query(
        `select extract(epoch from lower(range)) * 1000 as "from", extract(epoch from upper(range)) * 1000 as "to" from recorder_page.gap`,
      )
      return rows.map(({ from, to }) => [Number(from), Number(to)])
    }
    // The last two seconds before a response are not settled, and whole seconds stand for all of them. On a busy machine they may have gone to the disk.
    await expect.poll(gaps, { message: own.lines.join('\n') }).toEqual([[at + 88_000, at + 402_000]])
    // The one in between comes late, out of another recorder's spool.
    await own.queue.write(full(180))
    await own.queue.write(full(270))
    await own.queue.write(full(360))
    await own.queue.write(full(430))
    const left = async () => (await own.query(`select state from recorder_page.gap where state <> 'repaired'`)).rows
    await expect.poll(left).toEqual([])
  })
})

/** Books that follow one another, one of which has a price that is none. */
function booksOfWhich(refused: number) {
  return Array.from({ length: 30 }, (_, i) => {
    const bidPrices = i === refused ? ['1', 'two'] : ['2', '1']
    const book = aBook({ ts: at + i, bidPrices, bidSizes: ['1', '1'] })
    return batchOf('order_books', { category: book.category, symbol: book.symbol }, [book], at + i)
  })
}
