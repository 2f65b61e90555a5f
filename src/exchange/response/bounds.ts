import type { Operation } from '../../market/stream.js'

/** The maximum that a response of an operation may hold. Far above anything honest: what is beyond it is not read. */
export interface ResponseBounds {
  /** Of the body, after decompression. */
  readonly bytes: number
  /** Rows that are read; those after them are counted. */
  readonly rows: number
}

const mebibyte = 1_048_576

/** The longest lists of the service have some 3,400 rows in 1.7 MB, books 1,000 levels, fills 100 rows, candles 1,000. */
export const responseBounds: Readonly<Record<Operation, ResponseBounds>> = {
  instruments: { bytes: 16 * mebibyte, rows: 20_000 },
  tickers: { bytes: 16 * mebibyte, rows: 20_000 },
  'rpi-symbols': { bytes: 2 * mebibyte, rows: 20_000 },
  orderbook: { bytes: mebibyte / 2, rows: 1 },
  'rpi-orderbook': { bytes: mebibyte / 2, rows: 1 },
  fills: { bytes: mebibyte, rows: 1_000 },
  candles: { bytes: 2 * mebibyte, rows: 10_000 },
  'history-candles': { bytes: 2 * mebibyte, rows: 10_000 },
}

/** Levels on one side of a book. */
export const maxLevels = 10_000
/** Of one row of a list, as JSON. A longer one is not parsed: a few of them would hold everything else up. */
export const maxRowBytes = 262_144
/** Of everything in a long response that is not a row. */
export const maxEnvelopeBytes = 65_536
/** Fields of a row that the specification does not name, and their bytes as JSON, names included. */
export const maxUnknownFields = 64
export const maxUnknownBytes = 16_384
/** Rows of one response that could not be understood and are kept as text; the others are counted. */
export const maxRejectedRows = 100
/** Names of unknown fields that one response tells. */
export const maxUnknownNames = 100
