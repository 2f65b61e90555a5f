import type { DatabasePool } from '../../src/db/pool.js'
import { dayMs, hourMs, minuteMs } from '../../src/market/values.js'

/** Days around the night in which clocks of Europe go forward. */
export const referenceFrom = Date.UTC(2026, 2, 27)
export const referenceTo = referenceFrom + 4 * dayMs
/** Hours with fills, tickers and order books: across that night. */
export const busyFrom = Date.UTC(2026, 2, 28, 20)
export const busyTo = busyFrom + 6 * hourMs

export const referenceInstruments = [
  { category: 'SPOT', symbol: 'AAAUSDT' },
  { category: 'USDT-FUTURES', symbol: 'BBBUSDT' },
  { category: 'COIN-FUTURES', symbol: 'CCCUSD_CM' },
] as const
type Instrument = (typeof referenceInstruments)[number]
type Row = Readonly<Record<string, unknown>>

/** Returns whole numbers from 0 to `below`, the same on every machine. */
export type Dice = (below: number) => number

export function diceOf(seed: number): Dice {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const at = (ms: number) => new Date(ms).toISOString()

/**
 * Fills a database with everything that is easily answered wrong: gaps, silence, unknown volumes, forming candles, days
 * that open at another hour, fills at one moment, books without a side, sizes whose quotients never end.
 */
export async function loadReferenceMarket({ pool }: DatabasePool): Promise<void> {
  const insert = async (table: string, rows: readonly Row[]) => {
    const columns = Object.keys(rows[0] ?? {}).join(', ')
    const text = `insert into ${table} (${columns}) select ${columns} from jsonb_populate_recordset(null::${table}, $1)`
    for (let i = 0; i < rows.length; i += 2000) await pool.query(text, [JSON.stringify(rows.slice(i, i + 2000))])
  }
  for (const [index, instrument] of referenceInstruments.entries()) {
    const roll = diceOf(index + 1)
    const listed = { ...instrument, kind: 'crypto', fund_interval: 8 }
    await insert('market.instruments', [{ ...listed, first_seen_at: at(referenceFrom), updated_at: at(referenceFrom) }])
    await insert('market.instrument_history', historyOf(listed))
    const { rows, covered } = minutesOf(instrument, roll)
    await insert('market.candles', [...rows, ...daysOf(instrument, roll)])
    await insert('market.fills', fillsOf(instrument, roll))
    await insert('market.tickers', tickersOf(instrument, roll))
    await insert('market.order_books', booksOf(instrument, roll).map(withoutRpi))
    await insert('market.rpi_order_books', booksOf(instrument, roll))
    for (const [interval, ranges] of [
      ['1m', covered],
      ['1D', [[dayBegin, dayHole]] as const],
    ] as const)
      await pool.query(
        `insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
         values ('candles', $1, $2, 'market', $3, 'recorded', $4::tstzmultirange)`,
        [
          instrument.category,
          instrument.symbol,
          interval,
          `{${ranges.map(([from, to]) => `[${at(from)},${at(to)})`).join(',')}}`,
        ],
      )
  }
  await pool.query('analyze')
}

/** Settlements are every four hours until it leaves the list, and every two when it is back, after midnight. */
function historyOf(listed: Row): Row[] {
  const change = busyFrom + 3 * hourMs
  const held = { ...listed, valid_from: at(referenceFrom), valid_to: at(change), fund_interval: 4 }
  return [held, { ...listed, valid_from: at(change + 1.5 * hourMs), valid_to: null, fund_interval: 2 }]
}

function minutesOf(instrument: Instrument, roll: Dice): { rows: Row[]; covered: [number, number][] } {
  const rows: Row[] = []
  const covered: [number, number][] = []
  let [price, since] = [10_000, referenceFrom]
  for (let openTime = referenceFrom; openTime < referenceTo; openTime += minuteMs) {
    const length = roll(60) === 0 ? 1 + roll(roll(4) === 0 ? 150 : 8) : 0
    if (length > 0 && openTime + length * minuteMs < referenceTo) {
      // Nothing was traded there, or it was missed.
      if (roll(2) === 0) {
        if (openTime > since) covered.push([since, openTime])
        since = openTime + length * minuteMs
      }
      openTime += (length - 1) * minuteMs
      continue
    }
    const [open, close] = [price, Math.max(500, price + roll(201) - 100)]
    price = close
    const isUnknown = roll(100) === 0
    rows.push({
      ...instrument,
      type: 'market',
      interval: '1m',
      open_time: at(openTime),
      open: decimal(open, 2),
      high: decimal(Math.max(open, close) + roll(30), 2),
      low: decimal(Math.min(open, close) - roll(30), 2),
      close: decimal(close, 2),
      base_volume: isUnknown ? null : decimal(roll(1_000_000), 4),
      quote_turnover: isUnknown ? null : decimal(roll(100_000_000), 6),
      is_closed: openTime < referenceTo - minuteMs,
    })
  }
  covered.push([since, referenceTo - minuteMs])
  return { rows, covered }
}

const dayBegin = Date.UTC(2026, 2, 10, 16)
const dayHole = dayBegin + 8 * dayMs

/** Candles of a day that open at 16:00 UTC, at midnight, and at 16:00 again, with two days missing. */
function daysOf(instrument: Instrument, roll: Dice): Row[] {
  return Array.from({ length: 24 }, (_, day) => {
    const openTime = dayBegin + day * dayMs + (day >= 12 && day < 18 ? 8 * hourMs : 0)
    const unknown = day % 5 === 0
    const price = decimal(10_000 + roll(1000), 2)
    const volume = unknown ? null : decimal(roll(1_000_000), 3)
    const prices = { open: price, high: price, low: price, close: decimal(10_000 + roll(1000), 2) }
    const size = { base_volume: volume, quote_turnover: volume, is_closed: day !== 20 }
    return { ...instrument, type: 'market', interval: '1D', open_time: at(openTime), ...prices, ...size }
  }).filter((_, day) => day !== 8 && day !== 9)
}

function fillsOf(instrument: Instrument, roll: Dice): Row[] {
  const isCoin = instrument.category === 'COIN-FUTURES'
  let ts = busyFrom
  return Array.from({ length: 1500 }, (_, i) => {
    ts += roll(5) === 0 ? 0 : roll(28_000)
    // Quotients by 3, 7 and 9 never end, and three or nine of them are whole again.
    const price = isCoin ? ['3', '3', '3', '6', '9', '7', '30.3'][roll(i < 300 ? 3 : 7)] : decimal(9900 + roll(200), 2)
    const size = isCoin ? '100' : decimal(1 + roll(5000), 3)
    const side = roll(2) === 0 ? 'buy' : 'sell'
    const row = { ...instrument, ts: at(ts), exec_id: String(100_000 + i), side, price, size }
    return { ...row, source: 'live', received_at: at(ts + 300), extra: {} }
  }).filter((row) => Date.parse(row.ts) < busyTo)
}

function tickersOf(instrument: Instrument, roll: Dice): Row[] {
  const rows: Row[] = []
  for (let ts = busyFrom - hourMs; ts < busyTo; ts += 1000 + roll(90_000)) {
    const price = 9900 + roll(200)
    rows.push({
      ...instrument,
      ts: at(ts),
      last_price: decimal(price, 2),
      bid1_price: roll(9) === 0 ? null : decimal(price - 1 - roll(3), 2),
      ask1_price: decimal(price + 1 + roll(3), 2),
      funding_rate: roll(4) === 0 ? null : decimal(roll(300), 6),
      received_at: at(ts),
      extra: {},
    })
  }
  return rows
}

function booksOf(instrument: Instrument, roll: Dice): Row[] {
  const rows: Row[] = []
  for (let ts = busyFrom - hourMs; ts < busyTo; ts += 1000 + roll(120_000)) {
    const mid = 9900 + roll(200)
    const levels = Array.from({ length: roll(10) === 0 ? 0 : 1 + roll(20) }, (_, level) => level)
    const prices = (sign: number) => levels.map((level) => decimal(mid + sign * (1 + level * 3), 2))
    const sizes = () => levels.map(() => (roll(6) === 0 ? '0' : decimal(1 + roll(9000), 3)))
    rows.push({
      ...instrument,
      ts: at(ts),
      bid_prices: prices(-1),
      bid_sizes: sizes(),
      bid_rpi_sizes: sizes(),
      ask_prices: prices(1),
      ask_sizes: sizes(),
      ask_rpi_sizes: sizes(),
      received_at: at(ts),
      extra: {},
    })
  }
  return rows
}

function withoutRpi({ bid_rpi_sizes: _bids, ask_rpi_sizes: _asks, ...book }: Row): Row {
  return book
}

function decimal(units: number, scale: number): string {
  return (units / 10 ** scale).toFixed(scale)
}
