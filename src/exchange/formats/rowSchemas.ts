import { categories, tradedCategories } from '../../market/category.js'
import {
  type Instrument,
  type InstrumentField,
  type InstrumentFieldKind,
  instrumentFields,
} from '../../market/instrument.js'
import { type Ticker, type TickerField, tickerFields } from '../../market/ticker.js'
import {
  countDecimal,
  type Field,
  limitDecimal,
  optionalBoolean,
  optionalDecimal,
  optionalInteger,
  optionalKey,
  optionalText,
  optionalTime,
  optionalWord,
  refusalText,
  refused,
  requiredDecimal,
  requiredKey,
  requiredTime,
  requiredWord,
} from './fields.js'
import type { CandlePayload, FillPayload, InstrumentPayload, RpiSymbolPayload, TickerPayload } from '../payloads.js'
import { noExtra, objectReader, reasonsOf, Refusal, type RowReader } from './rowReader.js'
import type { RowSchema } from './rows.js'

type FieldsOf<Names extends string, Row extends Record<Names, unknown>> = {
  readonly [Name in Names]: Field<Row[Name]>
}

/**
 * Numbers of an instrument cannot be negative, so that -1 is the service's way to say "not set"; 0 is a value, such as a
 * precision or a ratio. Except for these: a fee can be a rebate, and a largest order of 0 is the absence of a limit.
 */
const instrumentExceptions: Readonly<Record<string, Field<unknown>>> = {
  makerFeeRate: optionalDecimal,
  takerFeeRate: optionalDecimal,
  maxOrderQty: limitDecimal,
} satisfies Partial<Record<InstrumentField, Field<unknown>>>

const instrumentKinds = {
  text: optionalText,
  boolean: optionalBoolean,
  integer: optionalInteger,
  decimal: countDecimal,
  time: optionalTime,
} satisfies Record<InstrumentFieldKind, Field<unknown>>

function instrumentField([name, kind]: [string, InstrumentFieldKind]) {
  return [name, instrumentExceptions[name] ?? instrumentKinds[kind]]
}

const tickerKinds = { decimal: optionalDecimal, time: optionalTime, text: optionalText }

// The field tables of the vocabulary are the definition; the casts say that each name got the reader of its kind.
const instrument = {
  category: requiredWord(categories),
  symbol: requiredKey,
  ...(Object.fromEntries(Object.entries(instrumentFields).map(instrumentField)) as FieldsOf<
    InstrumentField,
    Instrument
  >),
}
const ticker = {
  category: optionalWord(tradedCategories),
  symbol: requiredKey,
  ts: optionalTime,
  ...(Object.fromEntries(
    Object.entries(tickerFields).map(([name, kind]) => [name, tickerKinds[kind]]),
  ) as unknown as FieldsOf<TickerField, Ticker>),
}
const rpiSymbol = { category: requiredWord(tradedCategories), symbol: requiredKey }
const fill = {
  execId: requiredKey,
  execLinkId: optionalKey,
  price: requiredDecimal,
  size: requiredDecimal,
  side: requiredWord(['buy', 'sell']),
  ts: requiredTime,
  isRPI: optionalBoolean,
}

const candleFields = ['0', '1', '2', '3', '4', '5', '6']
const candleReaders = [requiredTime, ...candleFields.slice(1).map(() => requiredDecimal)]

/** Written out: a backfill reads millions of them. */
const readCandle: RowReader<CandlePayload> = (value) => {
  if (!Array.isArray(value)) return new Refusal([refusalText('an array', value)])
  const openTime = requiredTime.read(value[0])
  const open = requiredDecimal.read(value[1])
  const high = requiredDecimal.read(value[2])
  const low = requiredDecimal.read(value[3])
  const close = requiredDecimal.read(value[4])
  const baseVolume = requiredDecimal.read(value[5])
  const quoteTurnover = requiredDecimal.read(value[6])
  if (
    openTime === refused ||
    open === refused ||
    high === refused ||
    low === refused ||
    close === refused ||
    baseVolume === refused ||
    quoteTurnover === refused
  )
    return new Refusal(reasonsOf(Object.fromEntries(value.entries()), candleFields, candleReaders))
  return { openTime, open, high, low, close, baseVolume, quoteTurnover }
}

export const instrumentRow: RowSchema<InstrumentPayload> = {
  read: objectReader(instrument, (row) => Object.assign(row, { extra: noExtra })),
  fields: new Set(Object.keys(instrument)),
  repeats: ['category', 'symbol'],
}
export const tickerRow: RowSchema<TickerPayload> = {
  read: objectReader(ticker, (row) => Object.assign(row, { extra: noExtra })),
  fields: new Set(Object.keys(ticker)),
  repeats: ['category', 'symbol'],
  timeOf: ({ ts }) => ts,
}
export const fillRow: RowSchema<FillPayload> = {
  read: objectReader(fill, ({ execId, execLinkId, price, size, side, ts, isRPI }) => ({
    execId,
    execLinkId,
    price,
    size,
    side,
    ts,
    isRpi: isRPI,
    extra: noExtra,
  })),
  fields: new Set(Object.keys(fill)),
  timeOf: ({ ts }) => ts,
}
export const rpiSymbolRow: RowSchema<RpiSymbolPayload> = {
  read: objectReader(rpiSymbol, (row) => row),
  fields: null,
  unknownPositions: (value) => Object.keys(value as object).filter((name) => !(name in rpiSymbol)),
}
export const candleRow: RowSchema<CandlePayload> = {
  read: readCandle,
  fields: null,
  timeOf: ({ openTime }) => openTime,
  unknownPositions: (value) => ((value as unknown[]).length > 7 ? ['[7]'] : noPositions),
}
const noPositions: readonly string[] = []
