import { z } from 'zod'
import { categories, tradedCategories } from '../market/category.js'
import {
  type Instrument,
  type InstrumentField,
  type InstrumentFieldKind,
  instrumentFields,
} from '../market/instrument.js'
import { type Ticker, type TickerField, tickerFields } from '../market/ticker.js'
import {
  countDecimal,
  limitDecimal,
  optionalBoolean,
  optionalDecimal,
  optionalInteger,
  optionalKey,
  optionalText,
  optionalTime,
  optionalWord,
  requiredDecimal,
  requiredKey,
  requiredTime,
  requiredWord,
} from './fields.js'
import type { CandlePayload, FillPayload, InstrumentPayload, RpiSymbolPayload, TickerPayload } from './payloads.js'
import type { RowSchema } from './rows.js'

type FieldSchemas<Fields extends string, Row extends Record<Fields, unknown>> = {
  readonly [Field in Fields]: z.ZodType<Row[Field]>
}

/**
 * Numbers of an instrument cannot be negative, so that -1 is the service's way to say "not set"; 0 is a value, such as a
 * precision or a ratio. Except for these: a fee can be a rebate, and a largest order of 0 is the absence of a limit.
 */
const instrumentExceptions: Readonly<Record<string, z.ZodType>> = {
  makerFeeRate: optionalDecimal,
  takerFeeRate: optionalDecimal,
  maxOrderQty: limitDecimal,
} satisfies Partial<Record<InstrumentField, z.ZodType>>

const instrumentKinds = {
  text: optionalText,
  boolean: optionalBoolean,
  integer: optionalInteger,
  decimal: countDecimal,
  time: optionalTime,
} satisfies Record<InstrumentFieldKind, z.ZodType>

function instrumentFieldSchema([name, kind]: [string, InstrumentFieldKind]) {
  return [name, instrumentExceptions[name] ?? instrumentKinds[kind]]
}

const tickerKinds = { decimal: optionalDecimal, time: optionalTime, text: optionalText }

// The field tables of the vocabulary are the definition; the casts say that each name got the schema of its kind.
const instrumentShape = Object.fromEntries(Object.entries(instrumentFields).map(instrumentFieldSchema)) as FieldSchemas<
  InstrumentField,
  Instrument
>
const tickerShape = Object.fromEntries(
  Object.entries(tickerFields).map(([name, kind]) => [name, tickerKinds[kind]]),
) as Record<string, z.ZodType> as FieldSchemas<TickerField, Ticker>

const instrument = z.object({ category: requiredWord(categories), symbol: requiredKey, ...instrumentShape })
const ticker = z.object({
  category: optionalWord(tradedCategories),
  symbol: requiredKey,
  ts: optionalTime,
  ...tickerShape,
})
const rpiSymbol = z.object({ category: requiredWord(tradedCategories), symbol: requiredKey })

const fill = z
  .object({
    execId: requiredKey,
    execLinkId: optionalKey,
    price: requiredDecimal,
    size: requiredDecimal,
    side: requiredWord(['buy', 'sell']),
    ts: requiredTime,
    isRPI: optionalBoolean,
  })
  .transform(({ isRPI, ...rest }) => ({ ...rest, isRpi: isRPI }))

const candle = z
  .tuple(
    [
      requiredTime,
      requiredDecimal,
      requiredDecimal,
      requiredDecimal,
      requiredDecimal,
      requiredDecimal,
      requiredDecimal,
    ],
    z.unknown(),
  )
  .transform(([openTime, open, high, low, close, baseVolume, quoteTurnover]) => ({
    openTime,
    open,
    high,
    low,
    close,
    baseVolume,
    quoteTurnover,
  }))

/** `extra` is filled in by the row reader, which knows the fields that the schema left over. */
function withExtra<Row>(schema: z.ZodType<Omit<Row, 'extra'>>, fields: readonly string[]) {
  return { schema: schema as unknown as z.ZodType<Row>, fields: new Set(fields) }
}

export const instrumentRow: RowSchema<InstrumentPayload> = {
  ...withExtra<InstrumentPayload>(instrument, Object.keys(instrument.shape)),
  repeats: ['category', 'symbol'],
}
export const tickerRow: RowSchema<TickerPayload> = {
  ...withExtra<TickerPayload>(ticker, Object.keys(ticker.shape)),
  repeats: ['category', 'symbol'],
  timeOf: ({ ts }) => ts,
}
export const fillRow: RowSchema<FillPayload> = {
  ...withExtra<FillPayload>(fill, Object.keys(fill.in.shape)),
  timeOf: ({ ts }) => ts,
}
export const rpiSymbolRow: RowSchema<RpiSymbolPayload> = {
  schema: rpiSymbol,
  fields: null,
  unknownPositions: (value) => Object.keys(value as object).filter((name) => !(name in rpiSymbol.shape)),
}
export const candleRow: RowSchema<CandlePayload> = {
  schema: candle,
  fields: null,
  timeOf: ({ openTime }) => openTime,
  unknownPositions: (value) => ((value as unknown[]).length > 7 ? ['[7]'] : []),
}
