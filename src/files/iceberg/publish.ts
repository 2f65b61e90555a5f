import { messageOf } from '../../runtime/text.js'
import { noteArchivedDay, type NotedDay } from '../archive/state.js'
import { DamagedArchive } from '../archive/target.js'
import { UnfitDecimal } from '../parquet/decimals.js'
import { metadataFolder, movePointer, readPointers, versionOf } from './current.js'
import { type NarrowDays, NotUniform, type PublishContext, putFile, writeSnapshot } from './snapshot.js'
import { publishedTables } from './tables.js'

interface Published {
  /** Days that have to be written again before their tables can be published. */
  readonly narrow: readonly NarrowDays[]
  /** Why tables were not published, one line each. */
  readonly problems: readonly string[]
}

/**
 * Publishes the archive as snapshots of the tables. Records archived days in the transaction that moves the pointers.
 * Files are written first, so a process that is killed leaves files that no snapshot names.
 *
 * @param isAnew writes every manifest again, even if nothing has changed or the tables cannot be read
 */
export async function publishTables(
  context: PublishContext,
  noted: readonly NotedDay[],
  { isAnew = false }: { readonly isAnew?: boolean } = {},
): Promise<Published> {
  const { db, target } = context
  const pointers = await readPointers(db)
  const moved = new Map<string, string>()
  const narrow: NarrowDays[] = []
  const problems: string[] = []
  for (const table of publishedTables) {
    try {
      const url = await writeSnapshot(context, table, { pointer: pointers.get(table.name), noted, isAnew })
      if (url !== null) moved.set(table.name, url)
    } catch (error) {
      if (error instanceof NotUniform) narrow.push(error.narrow)
      else if (!(error instanceof DamagedArchive) && !(error instanceof UnfitDecimal)) throw error
      problems.push(`the table ${table.name} was not published: ${messageOf(error)}`)
    }
  }
  await db.transaction().execute(async (transaction) => {
    for (const day of noted) await noteArchivedDay(transaction, day)
    for (const [name, to] of moved) await movePointer(transaction, { name, from: pointers.get(name) ?? null, to })
  })
  for (const [name, url] of new Map([...pointers, ...moved])) {
    // Readers by path follow this hint. It is written after the pointer moved, so that it never names other metadata.
    const hint = `${metadataFolder(name)}version-hint.text`
    const version = String(versionOf(url))
    if ((await target.read(hint))?.toString() !== version) await putFile(context, hint, version)
  }
  return { narrow, problems }
}
