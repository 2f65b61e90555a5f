import type { ServedResponse } from '../../src/simulator/control.js'
import { trimmed } from './servedTruth.js'

type Wire = Readonly<Record<string, unknown>>

interface VersionedTable {
  readonly operation: string
  /** The columns of a row that tell it apart, those that make a version, and how the wire names all of them. */
  readonly key: Readonly<Record<string, string>>
  readonly values: Readonly<Record<string, string>>
}

export const versionedTables = {
  index_components: {
    operation: 'index-components',
    key: { exchange: 'exchange', spot_pair: 'spotPair' },
    values: { weight: 'weight' },
  },
} as const satisfies Readonly<Record<string, VersionedTable>>
export type VersionedName = keyof typeof versionedTables

/** A version as one line: its list, its row, what it says, from when, and until when. */
function lineOf(parts: readonly unknown[]): string {
  return parts.map((part) => trimmed(String((part ?? '') as string | number)) || '-').join(' ')
}

/**
 * The versions that a table must hold, worked out from what the simulator served: of each list of an instrument, what one
 * response after the other says. A list of a category is told apart by its symbols.
 */
export function servedVersions(responses: readonly ServedResponse[], table: VersionedName): string[] {
  const { operation, key, values }: VersionedTable = versionedTables[table]
  const complete = responses.filter((one) => one.operation === operation && one.delivered === 'complete' && one.data)
  const open = new Map<string, { readonly list: string; readonly said: string; readonly from: number }>()
  const closed: string[] = []
  for (const { parameters, data, atMs } of complete.toSorted((a, b) => a.atMs - b.atMs)) {
    const { category, symbol: asked } = parameters
    const rows = (Array.isArray(data) ? data : (data as { componentList: Wire[] }).componentList) as Wire[]
    const list = lineOf([category, asked])
    const now = new Map(
      rows.map((row) => {
        const name = lineOf([category, row['symbol'] ?? asked, ...Object.values(key).map((field) => row[field])])
        return [name, lineOf(Object.values(values).map((field) => row[field]))]
      }),
    )
    for (const [name, version] of open) {
      if (version.list !== list || now.get(name) === version.said) continue
      closed.push(lineOf([name, version.said, version.from, atMs]))
      open.delete(name)
    }
    for (const [name, said] of now) if (!open.has(name)) open.set(name, { list, said, from: atMs })
  }
  return [...closed, ...[...open].map(([name, { said, from }]) => lineOf([name, said, from, null]))].toSorted()
}

/** The versions that a table holds, in the same spelling. */
export async function storedVersions(
  query: (text: string) => Promise<readonly Wire[]>,
  table: VersionedName,
): Promise<string[]> {
  const { key, values }: VersionedTable = versionedTables[table]
  const ms = (column: string) => `(extract(epoch from ${column}) * 1000)::bigint as ${column}`
  const columns = ['category', 'symbol', ...Object.keys(key), ...Object.keys(values)]
  const rows = await query(`select ${columns.join(', ')}, ${ms('valid_from')}, ${ms('valid_to')} from market.${table}`)
  return rows.map((row) => lineOf([...columns, 'valid_from', 'valid_to'].map((column) => row[column]))).toSorted()
}
