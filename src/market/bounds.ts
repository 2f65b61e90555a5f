/** Bounds of what comes from outside. Each kind is bounded in one place. */
export const bounds = {
  /** Digits of a decimal besides zeros before it. A DECIMAL of the archive's engines has as many. */
  decimalDigits: 38,
  /** Bytes of a response after decompression, and its rows. Most operations have lower bounds. */
  responseBytes: 8_388_608,
  responseRows: 10_000,
  /** Deepest nesting of JSON. The service sends less, and no recursive reader runs out of stack at this depth. */
  jsonDepth: 32,
  /** Bytes of a row. A longer response is parsed row by row, because parsing cannot be interrupted. */
  rowBytes: 524_288,
  /** Unspecified fields of a row that are kept: their number, and their bytes as JSON with names. */
  unknownFields: 64,
  unknownBytes: 16_384,
  /** Characters of a cursor. It is sent with the next request. */
  cursorLength: 1_000,
  /** Requests of a walk through any history. A day of the busiest instrument takes some thousand, and each is stored. */
  walkRequests: 20_000,
  /** Pieces of time between which a walk of candles knows of none. Each page is compared with all of them. */
  walkPieces: 20_000,
  /** Characters of all rows that the pages of a history without bounds show, as JSON. Each page is compared with all before. */
  walkLength: 16_777_216,
  /** As many in all such walks at once. Three days of the liquidations of a busy future are some 8 million. */
  walksLength: 67_108_864,
  /** Rows that such a walk stores again, besides each of them once. Equal rows of one millisecond are numbered together. */
  walkRepeats: 10_000,
  /** Rejected rows of a response that are kept as text. So a response of bad rows takes little room on the disk. */
  rejectedRows: 100,
  /** Changed candles of a series that are compared with restatements at once. No slice of a history has more candles. */
  openRevisions: 20_000,
  /** Restatements of a series in a day. After each, all of the instrument's past is read again. */
  restatements: 5,
  /** Versions of an instrument or of another row of a list in a day. A list that is read each hour has up to 24. */
  versions: 25,
  /** New symbols of a list that are added before a later list agrees, or a tenth of the list if that is more. */
  newSymbols: 100,
  /** Instruments that are recorded: twice what the service was seen to list. Many a turn of the event loop walks all of them. */
  recordedInstruments: 10_000,
  /** Instruments that a part of the program keeps something in mind of, each of them once for each operation. */
  knownInstruments: 50_000,
  /** Locks of another login's session. One with more is ended when the server's table of locks is full. */
  locksOfSession: 200,
  /** Connections to the page and its API. `maxPages` limits open pages, so that some are left for requests. */
  connections: 512,
  /** Parameters of a request to them. The library that reads them takes the square of their number. */
  parameters: 32,
  /** Milliseconds without a turn for others while a response is read (the fuzz measures it), or instruments are chosen. */
  turnMs: 500,
} as const
