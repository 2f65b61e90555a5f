import { readFileSync } from 'node:fs'
import { bounds } from '../src/market/bounds.js'

/** What each bound is about, the module that holds it, and what becomes of more. */
const rows: Readonly<Record<keyof typeof bounds, readonly [what: string, holder: string, excess: string]>> = {
  decimalDigits: ['digits of a decimal', 'exchange/formats/fields.ts', 'the row or field is rejected'],
  rowBytes: ['bytes of a row', 'exchange/formats/rows.ts', 'the row is rejected'],
  unknownFields: [
    'unknown fields of a row',
    'exchange/formats/rows.ts',
    'further ones are left out, the row is stored',
  ],
  unknownBytes: ['bytes of these fields', 'exchange/formats/rows.ts', 'further ones are left out, the row is stored'],
  rejectedRows: ['rejected rows of a response', 'exchange/formats/rows.ts', 'further ones are only counted'],
  newSymbols: [
    'new symbols of a list',
    'collect/universe/wholeLists.ts',
    'they wait until the next list has them, too',
  ],
  connections: ['connections to the page', 'serve/connections.ts', 'the one that is silent for longest is closed'],
  locksOfSession: ['locks of a session of another login', 'db/locks.ts', 'the session is ended when no lock is left'],
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
    ([name, [what, holder, excess]]) =>
      `| ${what} | ${bounds[name as keyof typeof bounds].toLocaleString('en')} | \`${holder}\` | ${excess} |`,
  )
  return `${before}${begin}\n\n| what comes in | bound | held by | beyond it |\n|---|---|---|---|\n${lines.join('\n')}\n\n${end}${after}`
}
