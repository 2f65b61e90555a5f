import { parse, stringify } from 'lossless-json'
import { responseLimits } from '../../src/exchange/response.js'
import { bounds } from '../../src/market/bounds.js'
import { type Operation, type OperationTraits, operationTraits } from '../../src/market/operation.js'
import { sum } from '../../src/market/values.js'

/** A number of at least 0 and below 1, from a seed. */
export type Random = () => number

export function randomOf(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d_2b_79_f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** A response whose structure was changed. Rows have numbers as text. */
export interface Changed {
  readonly body: string
  /** Rows that were left as they were, in a response that can be understood. */
  readonly good: readonly unknown[]
  /** Rows that were changed, as they had been. */
  readonly spoilt: readonly unknown[]
}

type Json = Readonly<Record<string, unknown>>
/** Members of an object, as name and JSON text. Names may be there more than once. */
type Members = readonly (readonly [name: string, text: string])[]

const pick = <Item>(random: Random, [first, ...others]: readonly [Item, ...Item[]]): Item =>
  others[Math.floor(random() * (others.length + 1))] ?? first
/** Mostly small: the large ones are for the bounds of time and memory. */
const size = (random: Random) =>
  pick(random, [1, 1, 2, 2, 5, 31, 33, 64, 65, 65, 500, 20_000, ...(random() < 0.1 ? [200_000] : [])])
const objectText = (members: Members) =>
  `{${members.map(([name, text]) => `${JSON.stringify(name)}:${text}`).join(',')}}`
const membersOf = (value: Json): Members =>
  Object.entries(value).map(([name, inner]) => [name, stringify(inner) ?? 'null'])
const unknownFields = (count: number): Members => Array.from({ length: count }, (_, at) => [`f${at}`, String(at)])

/** JSON text of a value where no such value belongs. */
function strange(random: Random): string {
  const count = size(random)
  const number = pick(random, [
    '0',
    '-0',
    '-1',
    '1.50',
    '1e999',
    '-1e-999',
    '1e400',
    '253402300800000',
    '9'.repeat(count),
  ])
  return pick(random, [
    () =>
      pick(random, [
        'null',
        'true',
        'false',
        '""',
        '{}',
        '[]',
        '[[]]',
        '"NaN"',
        // These are no JSON.
        'NaN',
        '01.5',
        '"a\nb"',
        String.raw`"\u0000\u001b\u202e\ud800"`,
      ]),
    () => number,
    () => `"${number}"`,
    () => '['.repeat(count) + ']'.repeat(count),
    () => `${'{"a":'.repeat(count)}1${'}'.repeat(count)}`,
    () => `"${'x'.repeat(count * 5)}"`,
    () => `[${Array.from({ length: count }, () => number.slice(0, 40)).join(',')}]`,
    () => objectText(unknownFields(count)),
  ])()
}

/** Adds, repeats, renames, drops or replaces members. */
function changeMembers(members: Members, random: Random): Members {
  const at = Math.floor(random() * members.length)
  const [name = 'symbol', text = '""'] = members[at] ?? []
  return pick<() => Members>(random, [
    () => [...members, ...unknownFields(size(random))],
    () => [...unknownFields(size(random)), ...members],
    () => [...members, [name, strange(random)]],
    () => [[name, strange(random)], ...members],
    () => members.map((one, place) => (place === at ? [`${name}2`, text] : one)),
    () => members.filter((_, place) => place !== at),
    () => members.map((one, place) => (place === at ? [name, strange(random)] : one)),
    () => members.map((one, place) => (place === at ? [name, strange(random)] : one)),
    () => [...members, ['__proto__', strange(random)], ['constructor', strange(random)]],
  ])()
}

function changeRow(row: unknown, random: Random): string {
  if (random() < 0.1 || typeof row !== 'object' || row === null) return strange(random)
  if (!Array.isArray(row)) return objectText(changeMembers(membersOf(row as Json), random))
  const texts = row.map((element) => stringify(element) ?? 'null')
  const at = Math.floor(random() * texts.length)
  return pick(random, [
    () => `[${texts.with(at, strange(random)).join(',')}]`,
    () => `[${texts.toSpliced(at, 1).join(',')}]`,
    () => `[${[...texts, ...Array.from({ length: size(random) }, () => '1')].join(',')}]`,
  ])()
}

/** Rows of the data, and the text of the data with other rows. */
function rowsOf(data: unknown, { isOneRow, rowsField }: OperationTraits) {
  if (isOneRow === true) return { rows: [data], withRows: ([text = 'null']: readonly string[]) => text }
  if (rowsField === undefined) return { rows: data as readonly unknown[], withRows: listText }
  const fields = data as Json
  const withRows = (texts: readonly string[]) =>
    objectText(membersOf(fields).map(([name, text]) => [name, name === rowsField ? listText(texts) : text]))
  return { rows: (fields[rowsField] ?? []) as readonly unknown[], withRows }
}

const listText = (texts: readonly string[]) => `[${texts.join(',')}]`
const withTexts = (rows: readonly unknown[]) => rows.map((row) => parse(stringify(row) ?? 'null', null, (text) => text))

/** Changes some rows of an honest response, or its envelope, or nothing. */
export function changeResponse(honest: string, operation: Operation, random: Random): Changed {
  const envelope = parse(honest) as Json
  const traits: OperationTraits = operationTraits[operation]
  if (envelope['code'] !== '00000') return { body: honest, good: [], spoilt: [] }
  const { rows, withRows } = rowsOf(envelope['data'], traits)
  const kind = random()
  if (kind < 0.2) return { body: honest, good: withTexts(rows), spoilt: [] }
  const members = membersOf(envelope)
  if (kind < 0.35) return { body: changeEnvelope(members, random), good: [], spoilt: withTexts(rows) }
  const share = pick(random, [0, 0.02, 0.3, 1])
  const first = Math.floor(random() * rows.length)
  const isChanged = rows.map((_, at) => at === first || random() < share)
  // One large row of many shows the same as many large ones, which no response has room for.
  let left = 3_000_000
  const texts = rows.map((row, at) => {
    const text = isChanged[at] === true && left > 0 ? changeRow(row, random) : (stringify(row) ?? 'null')
    left -= text.length
    return text
  })
  // Twice what the largest response may have shows what more would.
  const most = Math.ceil((2 * bounds.responseBytes) / Math.max(1, sum(texts.map(({ length }) => length))))
  const times = random() < 0.05 && texts.length > 0 ? Math.min(most, Math.ceil(size(random) / texts.length)) : 1
  const all = traits.isOneRow === true ? texts : Array.from({ length: times }, () => texts).flat()
  const body = objectText(members.map(([name, text]) => [name, name === 'data' ? withRows(all) : text]))
  const { bytes, rows: maxRows } = responseLimits(operation)
  const isWhole = Buffer.byteLength(body) <= bytes && all.length <= maxRows
  return {
    body,
    good: isWhole ? withTexts(rows.filter((_, at) => isChanged[at] !== true)) : [],
    spoilt: withTexts(isWhole ? rows.filter((_, at) => isChanged[at] === true) : rows),
  }
}

function changeEnvelope(members: Members, random: Random): string {
  const text = objectText(changeMembers(members, random))
  return random() < 0.2 ? text.slice(0, Math.floor(random() * text.length)) : text
}
