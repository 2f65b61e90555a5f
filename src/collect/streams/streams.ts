import type { Config } from '../../config/resolve.js'
import type { InstrumentKey } from '../../market/category.js'
import { type StreamName, streamNames, streamTraits } from '../../market/stream.js'
import { orderBooks, rpiOrderBooks } from './books.js'
import { candles } from './candles.js'
import { fills } from './fills.js'
import { futuresStreams } from './futures.js'
import { instruments, rpiSymbols, tickers } from './lists.js'
import type { InstrumentStream, ListStream } from './stream.js'

/** Each stream once: how it is requested, what it covers and what that takes. Its other traits stand in `market/stream.ts`. */
export const streams = {
  instruments,
  rpi_symbols: rpiSymbols,
  tickers,
  order_books: orderBooks,
  rpi_order_books: rpiOrderBooks,
  fills,
  candles,
  ...futuresStreams,
} as const satisfies Readonly<Record<StreamName, unknown>>

export type AnyStream = ListStream<unknown, unknown> | InstrumentStream<InstrumentKey, unknown>

/** The entry that a stored name stands for; its target and rows are those that the same entry made. */
export function streamNamed(name: StreamName): AnyStream {
  return streams[name]
}

export function enabledStreams({ streams: options }: Config): AnyStream[] {
  return streamNames.filter((name) => options[streamTraits[name].options].enabled).map(streamNamed)
}
