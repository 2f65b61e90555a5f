import type { TimeMs } from '../../market/values.js'
import type { DatabasePool } from '../../db/pool.js'
import { readInBatches } from '../../db/readOnlyQuery.js'
import type { UnfitDecimal } from '../parquet/decimals.js'
import type { Manifest } from './manifest.js'
import { type ExportRequest, partsOf, selectionOf } from './request.js'
import { selectedRows } from './source.js'

/** With every day that has files to be written again. */
export function withOutdatedDays(manifest: Manifest): Manifest {
  const parts = Object.entries(manifest.parts).map(([name, part]): [string, typeof part] => [
    name,
    part.files === 0 ? part : { ...part, isOutdated: true },
  ])
  return { ...manifest, parts: Object.fromEntries(parts) }
}

/** Throws when this request would not bring back all of a day that has to be written again: what is there stays as it is. */
export async function requireReplaceable(
  database: DatabasePool,
  request: ExportRequest,
  manifest: Manifest,
  now: TimeMs,
  cause?: UnfitDecimal,
): Promise<void> {
  const { source, folder } = request
  // Without days all of it is written anew each time, whatever it was.
  if (source.timeColumn === undefined) return
  const because = cause === undefined ? '' : `${cause.message}: `
  const why = `${because}all days in ${folder} have to be written again, with a wider type`
  const parts = new Map(partsOf(request, now).map((part) => [part.name, part]))
  const outdated = Object.entries(manifest.parts).filter(([, { isOutdated }]) => isOutdated)
  for (const [name, { from, to }] of outdated) {
    const part = parts.get(name)
    if (part !== undefined && part.from <= Date.parse(from) && part.to >= Date.parse(to)) continue
    throw new Error(`${why}, and not all of ${name} is asked for: ${giveWhole(manifest)}`, { cause })
  }
  for (const [name, { from, to, rows }] of outdated) {
    const { sql, parameters } = selectedRows(
      source,
      selectionOf(request, { from: Date.parse(from), to: Date.parse(to) }),
    )
    const options = { batchRows: 1, parameters }
    const found = await readInBatches(database, `select count(*) from ${sql}`, options, async (_, batches) => {
      for await (const [row] of batches) return Number(row?.[0])
      return 0
    })
    if (found < rows) throw new Error(`${why}, and ${fewerRows(name, found, rows)}`, { cause })
  }
}

function giveWhole({ parts }: Manifest): string {
  const times = Object.values(parts)
  const [first = ''] = times.map(({ from }) => from).toSorted()
  const last =
    times
      .map(({ to }) => to)
      .toSorted()
      .at(-1) ?? ''
  return `export into another folder, or all of it, --from ${first} --to ${last} or more`
}

export function fewerRows(name: string, found: number, rows: number): string {
  return `of ${rows} rows of ${name} the database has only ${found} now: export into another folder`
}
