import type { Category } from './category.js'

export interface OperationTraits {
  /** Requests a second that the service allows an address. */
  readonly perSecond: number
  /** The operation is not in the specification, so a service may lack it. */
  readonly mayLack?: true
  /** The rows are the instruments of a category, of which there are always some. */
  readonly listsCategory?: true
  /** The rows are this field of an object, beside fields that they have in common. */
  readonly rowsField?: string
  /** The data of the envelope is one object, which is the only row. */
  readonly isOneRow?: true
}

/** The service's public market-data operations, by the last part of their path. */
export const operationTraits = {
  instruments: { perSecond: 20, listsCategory: true },
  'rpi-symbols': { perSecond: 10 },
  tickers: { perSecond: 20, listsCategory: true },
  orderbook: { perSecond: 20, isOneRow: true },
  'rpi-orderbook': { perSecond: 10, isOneRow: true },
  fills: { perSecond: 20 },
  candles: { perSecond: 20 },
  'history-candles': { perSecond: 20 },
  'futures-fills-history': { perSecond: 10, mayLack: true },
  'spot-fills-history': { perSecond: 10, mayLack: true },
  'history-fund-rate': { perSecond: 20, mayLack: true, rowsField: 'resultList' },
  'current-fund-rate': { perSecond: 20, mayLack: true },
  liquidations: { perSecond: 10, mayLack: true, rowsField: 'list' },
  'futures-active-buy-sell': { perSecond: 1, mayLack: true },
  'futures-long-short': { perSecond: 1, mayLack: true },
  'futures-account-long-short': { perSecond: 1, mayLack: true },
  'futures-position-long-short': { perSecond: 1, mayLack: true },
  'index-components': { perSecond: 10, mayLack: true, rowsField: 'componentList' },
} as const satisfies Readonly<Record<string, OperationTraits>>

export type Operation = keyof typeof operationTraits
export const operations = Object.keys(operationTraits) as readonly Operation[]

/** Makes a value for each operation. */
export function byOperation<Value>(make: (operation: Operation) => Value): Record<Operation, Value> {
  return Object.fromEntries(operations.map((name) => [name, make(name)])) as Record<Operation, Value>
}

/** The operations that give past fills. Each category has one of them. */
export const pastFillsOperations = ['spot-fills-history', 'futures-fills-history'] as const satisfies Operation[]

export function operationOfPastFills(category: Category): Operation {
  return category === 'SPOT' ? 'spot-fills-history' : 'futures-fills-history'
}

export const specifiedPerSecond = byOperation((name) => operationTraits[name].perSecond)
