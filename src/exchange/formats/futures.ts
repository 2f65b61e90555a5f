import type { FuturesCategory } from '../../market/category.js'
import type { Operation } from '../../market/operation.js'
import { type FieldStream, type RowOf, streamTraits } from '../../market/stream.js'
import type { FieldType } from '../../market/values.js'
import {
  checkRepeated,
  type Field,
  optionalAmount,
  optionalDecimal,
  optionalInteger,
  optionalKey,
  optionalTime,
  requiredAmount,
  requiredDecimal,
  requiredKey,
  requiredSymbol,
  requiredTime,
  requiredWord,
} from './fields.js'
import { anObject, type Format, noExtra } from './rows.js'

/** A request for rows of one future, or of all futures of a category. */
export interface FuturesQuery {
  readonly category: FuturesCategory
  readonly symbol?: string
  readonly period?: '5m'
  readonly limit?: number
  /** Names a further page: by its number from 1, or by the cursor that the page before gave. */
  readonly cursor?: number | string
}

const readers: Partial<Record<FieldType, Field<unknown>>> = {
  decimal: requiredDecimal,
  'decimal?': optionalDecimal,
  amount: requiredAmount,
  'amount?': optionalAmount,
  'integer?': optionalInteger,
  text: requiredKey,
  time: requiredTime,
  'time?': optionalTime,
  side: requiredWord(['buy', 'sell']),
}

/** An operation of futures, and its rows: the declared fields of a stream that the wire has. */
interface FuturesCall<Row> {
  readonly operation: Operation
  readonly format: Format<FuturesQuery, Row>
}

/** Makes the call of a stream. Rows without `ts` get the time of their response. @param names names on the wire */
function call<Name extends FieldStream, Names extends { readonly [Field in keyof RowOf<Name>]?: string }>(
  stream: Name,
  names: Names,
): FuturesCall<
  Pick<RowOf<Name>, 'category' | 'symbol' | 'ts' | 'receivedAt' | 'extra' | (keyof Names & keyof RowOf<Name>)>
> {
  const { operation, fields } = streamTraits[stream]
  const types: Readonly<Record<string, FieldType>> = { ...fields, ts: 'time' }
  const read = Object.entries(names as Readonly<Record<string, string>>).map(([field, name]) => {
    const reader = readers[types[field] as FieldType]
    if (reader === undefined) throw new RangeError(`${stream}.${field} cannot be read from the wire`)
    return { field, name, reader }
  })
  return {
    operation,
    format: {
      shape: anObject,
      fields: new Set(['symbol', ...read.map(({ name }) => name)]),
      read(wire, { query, ownTime, receivedAt }, notes) {
        const symbolOf = query.symbol === undefined ? requiredSymbol : optionalKey
        const symbol = symbolOf(wire['symbol'], 'symbol', notes)
        checkRepeated('symbol', symbol, query.symbol, notes)
        const row: Record<string, unknown> = {
          category: query.category,
          symbol: query.symbol ?? symbol,
          ts: ownTime,
          receivedAt,
          extra: noExtra,
        }
        for (const { field, name, reader } of read) row[field] = reader(wire[name], name, notes)
        // Each field was read as the type that the stream declares.
        return row as RowOf<Name>
      },
      timeOf: ({ ts }) => ts,
    },
  }
}

/** The calls of the streams that only futures have. */
export const futuresCalls = {
  fundingRates: call('funding_rates', { ts: 'fundingRateTimestamp', fundingRate: 'fundingRate' }),
  fundingForecasts: call('funding_forecasts', {
    fundingRate: 'fundingRate',
    intervalHours: 'fundingRateInterval',
    nextUpdate: 'nextUpdate',
    minRate: 'minFundingRate',
    maxRate: 'maxFundingRate',
  }),
  takerFlow: call('taker_flow', { ts: 'ts', buyVolume: 'buyVolume', sellVolume: 'sellVolume' }),
  longShortRatios: call('long_short_ratios', {
    ts: 'ts',
    longShare: 'longRatio',
    shortShare: 'shortRatio',
    longShortRatio: 'longShortRatio',
  }),
  longShortAccounts: call('long_short_accounts', {
    ts: 'ts',
    longShare: 'longAccountRatio',
    shortShare: 'shortAccountRatio',
    longShortRatio: 'longShortAccountRatio',
  }),
  longShortPositions: call('long_short_positions', {
    ts: 'ts',
    longShare: 'longPositionRatio',
    shortShare: 'shortPositionRatio',
    longShortRatio: 'longShortPositionRatio',
  }),
  liquidations: call('liquidations', { ts: 'ts', side: 'side', price: 'price', amount: 'amount' }),
  indexComponents: call('index_components', {
    exchange: 'exchange',
    spotPair: 'spotPair',
    weight: 'weight',
    equivalentPrice: 'equivalentPrice',
  }),
}
