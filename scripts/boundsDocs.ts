import { readFileSync } from 'node:fs'
import { bounds } from '../src/market/bounds.js'

const rejected = 'rows_rejected_total'

/** What each bound is about, the module that holds it, what becomes of more, and the metric that counts it. */
const rows: Readonly<
  Record<keyof typeof bounds, readonly [what: string, holder: string, excess: string, counter: string | null]>
> = {
  responseBytes: [
    'bytes of a response, after decompression',
    'exchange/response.ts',
    'it fails as `too-large`; most operations have a lower bound',
    'requests_total',
  ],
  responseRows: ['rows of a response', 'exchange/response.ts', 'further ones are only counted', rejected],
  jsonDepth: ['levels of JSON', 'exchange/response.ts', 'the row is rejected', rejected],
  rowBytes: ['bytes of a row', 'exchange/formats/rows.ts', 'the row is rejected', rejected],
  cursorLength: [
    'characters of a cursor',
    'exchange/response.ts',
    'the response fails as `malformed`',
    'requests_total',
  ],
  walkRequests: [
    'requests of a walk through any history',
    'history/sliceWork.ts',
    'the walk ends; what is left of its range is a gap that says so',
    null,
  ],
  walkPieces: ['pieces of time that the candles of a walk make', 'history/fetchRange.ts', 'as requests', null],
  walkLength: [
    'characters of all pages of liquidations or settled funding rates that a walk shows',
    'history/pagesWalk.ts',
    'as requests',
    null,
  ],
  walksLength: ['characters of such pages in all walks at once', 'history/pagesWalk.ts', 'as requests', null],
  walkRepeats: ['rows that such a walk stores again', 'history/pagesWalk.ts', 'as requests', null],
  rejectedRows: ['rejected rows that are kept of a response', 'exchange/formats/rows.ts', 'as rows', rejected],
  decimalDigits: [
    'digits of a decimal; sizes and volumes are not negative',
    'exchange/formats/fields.ts',
    'the row is rejected, or stored without the field',
    rejected,
  ],
  unknownFields: [
    'unknown fields of a row',
    'exchange/formats/rows.ts',
    'the row is stored without further ones; `recorder.rejected_row` says so',
    null,
  ],
  unknownBytes: ['bytes of these fields', 'exchange/formats/rows.ts', 'as fields', null],
  openRevisions: [
    'changed candles of a series that are compared with its restatements at once',
    'ledger/restatements.ts',
    'older changes stay single revisions, unless a later comparison has room for them',
    null,
  ],
  restatements: [
    'new restatements of a series in a day',
    'ledger/restatements.ts',
    'further changes stay single revisions, and are no cause to read the past again',
    null,
  ],
  versions: [
    'versions of an instrument, or of another row of a list, in a day',
    'ledger/versions.ts',
    'the one before the newest is dropped; the version before it lasts as long, if it ended when that began',
    null,
  ],
  newSymbols: [
    'new symbols of a list',
    'collect/universe/wholeLists.ts',
    'they wait until a later list agrees; an incident says so',
    rejected,
  ],
  recordedInstruments: [
    'instruments that are recorded; 60 % may be spot, 20 % USDT futures, 10 % margin, and 5 % each other futures',
    'collect/universe/universe.ts',
    'those that came first stay, further ones are left out, and such a list removes none; an incident says so',
    rejected,
  ],
  knownInstruments: [
    'instruments of which something is kept in mind, once for each operation',
    'runtime/boundedMap.ts',
    'the oldest is forgotten',
    null,
  ],
  connections: [
    'connections to the page',
    'serve/connections.ts',
    'the one that is silent for longest is closed',
    'connections_refused_total',
  ],
  parameters: ['parameters of a request to the page', 'serve/connections.ts', 'the request is refused', null],
  locksOfSession: [
    'locks of a session of another login',
    'db/locks.ts',
    'the session is ended when no lock is left; the log says so',
    null,
  ],
  turnMs: [
    'milliseconds of the event loop without a turn, while a response is read or instruments are chosen',
    'exchange/splitRows.ts',
    'shown by the metric',
    'nodejs_eventloop_lag_max_seconds',
  ],
}

const [begin, end] = [
  '<!-- Bounds: written by npm run docs from src/market/bounds.ts. -->',
  '<!-- End of the bounds. -->',
]

/** The page about reliability with its table of bounds. */
export function reliabilityPage(): string {
  const page = readFileSync('docs/reliability.md', 'utf8')
  const [before = '', rest = ''] = page.split(begin)
  const [, after = ''] = rest.split(end)
  const lines = Object.entries(rows).map(
    ([name, [what, holder, excess, counter]]) =>
      `| ${what} | ${bounds[name as keyof typeof bounds].toLocaleString('en')} | \`${holder}\` | ${excess} | ${counter === null ? '' : `\`${counter}\``} |`,
  )
  return `${before}${begin}\n\n| what comes in | bound | held by | beyond it | counted by |\n|---|---|---|---|---|\n${lines.join('\n')}\n\n${end}${after}`
}
