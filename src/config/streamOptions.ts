import { type StreamName, streamNames } from '../market/stream.js'
import type { Config } from './resolve.js'

/** The option group of each stream in `streams`, and in `storage` where its table grows with time. */
export const streamOptions = {
  instruments: 'instruments',
  rpi_symbols: 'rpiSymbols',
  tickers: 'tickers',
  order_books: 'orderBooks',
  rpi_order_books: 'rpiOrderBooks',
  fills: 'fills',
  candles: 'candles',
} as const satisfies Record<StreamName, keyof Config['streams']>

export function enabledStreams({ streams }: Config): StreamName[] {
  return streamNames.filter((stream) => streams[streamOptions[stream]].enabled)
}
