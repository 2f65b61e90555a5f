import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { randomName } from '../../runtime/randomness.js'
import { type Manifest, type ManifestColumn, readManifest } from '../archive/manifest.js'
import { byBytes } from '../archive/rows.js'
import { parquetColumns } from '../archive/rowText.js'
import type { NarrowDays } from '../archive/run.js'
import type { Day } from '../archive/tables.js'
import type { ArchiveTarget } from '../archive/target.js'
import { widen } from '../parquet/decimals.js'
import { createParquetFile } from '../parquet/file.js'
import * as current from './current.js'
import type { DataFile } from './manifests.js'
import { type Field, fieldOf } from './metadata.js'
import { dataFile, type PublishedTable } from './tables.js'

/** Thrown if files of a table have a decimal column with different types. No engine reads them as one column. */
export class NotUniform extends Error {
  constructor(readonly narrow: NarrowDays) {
    super(`${narrow.days.length} days of ${narrow.table} have to be written again with more room for decimals`)
  }
}

/** Collects files of days that the table does not show yet, and the columns of the table with these files. */
export class FreshFiles {
  readonly fields: Map<string, Field>
  #isUniform = true

  constructor(
    /** The archive, and a local folder for files that are being written. */
    readonly place: { readonly target: ArchiveTarget; readonly folder: string },
    private readonly table: PublishedTable,
    fields: readonly Field[],
  ) {
    this.fields = new Map(fields.map((field) => [field.name, field]))
  }

  /** Returns the files of a day by its manifest. For a table of proofs, it first writes the proof as a file. */
  async filesOf(part: current.Part): Promise<DataFile[]> {
    const { target } = this.place
    const manifest = await readManifest(target, part)
    const { proof } = this.table
    for (const field of fieldsOf(proof?.columns ?? (manifest.rows > 0 ? manifest.columns : []))) {
      this.#isUniform &&= (this.fields.get(field.name)?.id ?? field.id) === field.id
      this.fields.set(field.name, field)
    }
    if (proof !== undefined) return this.#proofFile(manifest, proof)
    return manifest.files.map(({ path, category, rows, bytes, first, last }) =>
      dataFile(this.table, {
        url: `${current.urlOf(target)}/${path}`,
        day: part.day,
        dividedBy: category,
        rows,
        bytes,
        symbols: [first.symbol, last.symbol],
      }),
    )
  }

  async #proofFile(manifest: Manifest, { columns, rowsOf }: NonNullable<PublishedTable['proof']>): Promise<DataFile[]> {
    const { target, folder } = this.place
    const { table, day, version } = manifest
    const rows = rowsOf(manifest)
    if (rows.length === 0) return []
    const local = join(folder, `${this.table.name}-${randomName(4)}.parquet`)
    const file = await createParquetFile(local, parquetColumns(columns))
    await file.write(rows)
    await file.close()
    const { size } = await stat(local)
    const path = `iceberg/${this.table.name}/data/${table}/${day}-v${version}.parquet`
    await target.publish(local, path)
    const symbols = rows.map((row) => row[1] ?? '').toSorted(byBytes)
    const placed = {
      url: `${current.urlOf(target)}/${path}`,
      day,
      dividedBy: manifest.proof[0]?.stream ?? '',
      rows: rows.length,
      bytes: size,
      symbols: [symbols[0] ?? '', symbols.at(-1) ?? ''] as const,
    }
    return [dataFile(this.table, placed)]
  }

  /** Throws a `NotUniform` if files have a decimal column with different types. */
  async requireUniform(parts: readonly current.Part[]): Promise<void> {
    if (this.#isUniform) return
    const found = new Map<Day, readonly ManifestColumn[]>()
    const widest = new Map<string, ManifestColumn>()
    for (const part of parts) {
      const { columns, rows } = await readManifest(this.place.target, part)
      if (rows > 0) found.set(part.day, columns)
      for (const column of rows > 0 ? columns : []) {
        const { digits = 0, scale = 0 } = widest.get(column.name) ?? {}
        const room = widen({ digits: column.digits ?? 0, scale: column.scale ?? 0 }, { digits, scale })
        widest.set(column.name, column.digits === undefined ? column : { ...column, ...room })
      }
    }
    const columns = [...widest.values()]
    const ids = new Map(fieldsOf(columns).map((field) => [field.name, field.id]))
    const isNarrow = (own: readonly ManifestColumn[]) => fieldsOf(own).some(({ name, id }) => ids.get(name) !== id)
    const days = [...found].filter(([, own]) => isNarrow(own)).map(([day]) => day)
    if (days.length > 0) throw new NotUniform({ table: this.table.name, days, columns })
    for (const field of fieldsOf(columns)) this.fields.set(field.name, field)
  }
}

function fieldsOf(columns: readonly ManifestColumn[]): Field[] {
  return parquetColumns(columns).map(fieldOf)
}
