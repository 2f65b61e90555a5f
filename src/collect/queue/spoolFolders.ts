import { basename, join, resolve } from 'node:path'
import { belongsTo, type DatabaseIdentity, type Identity, type OwnDatabase } from '../../db/identity.js'
import { type Disk, isFullDisk, readNote, syncToDisk, writeNote } from '../../runtime/disk.js'
import { becomeFileOwner, ownerPattern } from '../../runtime/folderLock.js'
import type { Logger } from '../../runtime/logger.js'
import type { Kysely } from 'kysely'
import { hostname } from 'node:os'
import { describeDatabaseError } from '../../db/databaseError.js'
import type { Database } from '../../db/schema.js'
import { type StreamName, streamNames } from '../../market/stream.js'
import type { ServiceMs } from '../../market/values.js'

/**
 * Returns the folder of a spool below the root of all spools. Its segments belong to one service and one database, which
 * its name tells:
 *
 *     <service>~<id of the database>~<its place>
 *     <service>~unknown~<the recorder that made it>
 *
 * A recorder that starts without its database has a folder of the second kind. The first database that it finds is
 * noted in that folder.
 */
export function folderOf({ service, database }: Identity, recorder: string): string {
  const rest = database === null ? `unknown~${recorder}` : `${database.id}~${database.place}`
  // A path may have the sign that separates the parts.
  return `${encodeURIComponent(service).replaceAll('~', '%7E')}~${rest}`
}

const folderPattern = /^([^~]+)~([^~]+)~([^~]+)$/
const noteName = 'database.json'

/** Notes the database of a folder that was made before the database was known. */
export async function noteDatabase(folder: string, { id, place }: DatabaseIdentity, disk: Disk, logger: Logger) {
  await writeNote(disk, join(folder, noteName), { id, place } satisfies DatabaseIdentity, { logger, what: 'spool' })
}

/** Reads whose a folder is; null if it is no folder of a spool. */
async function identityOf(root: string, name: string, disk: Disk): Promise<Identity | null> {
  const [, service, id, place] = folderPattern.exec(name) ?? []
  if (service === undefined || id === undefined || place === undefined) return null
  if (id !== 'unknown') return { service: decodeURIComponent(service), database: { id, place } }
  const note = await readNote<DatabaseIdentity>(disk, join(root, name, noteName))
  const isNoted = note?.id !== undefined && note.place !== undefined
  return { service: decodeURIComponent(service), database: isNoted ? { id: note.id, place: note.place } : null }
}

/** Resolves to true if responses wait in the folders below a root; null if it cannot be read. */
async function hasSegments(disk: Disk, root: string): Promise<boolean | null> {
  const names = await disk.readdir(root).catch(() => null)
  if (names === null) return null
  for (const name of names) {
    if (parseSegmentName(name) !== null) return true
    if (folderPattern.test(name) && (await segmentsIn(join(root, name), disk)).length > 0) return true
  }
  return false
}

interface ClaimOptions {
  /** Folder of the spools of all recorders on this machine. */
  readonly root: string
  /** Own folder below the root. */
  readonly folder: string
  /** The configured service, and a former one that has moved to its address. */
  readonly services: readonly string[]
  /** Null while it is not known. Only what no database is noted for is then taken over. */
  readonly own: OwnDatabase | null
  /** True to take over whatever is of this service. */
  readonly takesOthers: boolean
  readonly disk: Disk
}

/**
 * Moves what ended recorders left for this database into the own folder. What belongs to another service or database
 * stays where it is. Resolves to one line for each folder of others, with what to do.
 */
export async function claimSegments(options: ClaimOptions): Promise<string[]> {
  const { root, folder, own, disk } = options
  const lines: string[] = []
  const target = join(root, folder)
  await disk.mkdir(target, { recursive: true, mode: 0o700 })
  const names = (await disk.readdir(root)).filter((name) => name !== folder)
  for (const name of names) {
    const kept = await identityOf(root, name, disk)
    if (kept === null) continue
    const source = join(root, name)
    if (isOwn(kept, options)) await move(source, target, disk)
    else if (own !== null || !options.services.includes(kept.service))
      lines.push(...(await linesOf(kept, source, options)))
  }
  if (names.some((name) => parseSegmentName(name) !== null))
    lines.push(`responses in ${root} are of an earlier version; to store them in this database, move them to ${target}`)
  return lines
}

const startLine = 'they are left there: to store them in this database, start once with --adopt'

function isOwn(kept: Identity, { services, own, takesOthers }: ClaimOptions): boolean {
  const isOfService = services.includes(kept.service)
  if (kept.database === null) return isOfService
  if (own === null) return false
  return belongsTo(kept.database, own) || (takesOthers && isOfService)
}

/** Describes what waits in a folder of others; no line if nothing does. */
async function linesOf({ service, database }: Identity, source: string, options: ClaimOptions): Promise<string[]> {
  const { own, services, disk } = options
  if ((await segmentsIn(source, disk)).length === 0) return []
  if (!services.includes(service))
    return [
      `responses in ${source} are of ${service}; they are left there: to store them, start a recorder of that service with this data folder`,
    ]
  const isCopied = database !== null && database.id === own?.id
  return [
    `responses in ${source} are for ${isCopied ? 'the database that this one is a copy of' : 'another database'}; ${startLine}`,
  ]
}

async function segmentsIn(folder: string, disk: Disk): Promise<string[]> {
  const names = await disk.readdir(folder).catch(() => [])
  return names.filter((name) => parseSegmentName(name) !== null)
}

/** Moves the segments of recorders that have ended, and removes the folder of one that did not know its database. */
async function move(source: string, target: string, disk: Disk): Promise<void> {
  const names = await segmentsIn(source, disk)
  const self = await becomeFileOwner(disk)
  self.release()
  let left = 0
  for (const name of names) {
    const hasEnded = await self.hasEnded(parseSegmentName(name)?.owner ?? '')
    if (hasEnded) await disk.rename(join(source, name), join(target, name)).catch(unlessGone)
    else left++
  }
  if (names.length > left) await syncToDisk(disk, target)
  const [, , id, maker] = folderPattern.exec(basename(source)) ?? []
  // A recorder of another address may write to a folder whose database is known.
  if (left > 0 || id !== 'unknown' || !(await self.hasEnded(maker ?? ''))) return
  const rest = await disk.readdir(source).catch(() => [])
  // The note tells whose the rest is, such as a damaged segment. So it stays as long as that does.
  if (rest.some((name) => name !== noteName)) return
  await disk.rm(join(source, noteName), { force: true })
  await disk.rmdir(source).catch(() => undefined)
}

/** Accepts that another recorder has moved a segment meanwhile. */
function unlessGone(error: NodeJS.ErrnoException): void {
  if (error.code !== 'ENOENT') throw error
}

const hostPrefix = () => `${hostname()}:`
const rootOf = (dataDir: string) => join(resolve(dataDir), 'spool')

interface FormerSpoolOptions {
  readonly egress: string
  readonly dataDir: string
  readonly disk: Disk
  readonly logger: Logger
}

/**
 * Warns if the address had another data folder. It stays noted, and each start warns, while responses wait there. Never
 * rejects.
 */
export async function reportFormerSpool(
  db: Kysely<Database>,
  { egress, dataDir, disk, logger }: FormerSpoolOptions,
): Promise<void> {
  const root = rootOf(dataDir)
  const prefix = hostPrefix()
  try {
    const former = await readSpool(db, egress)
    const isOther = former !== null && former !== prefix + root
    const hasLeft = isOther && (former.startsWith(prefix) ? await hasSegments(disk, former.slice(prefix.length)) : null)
    if (hasLeft !== true) await noteSpool(db, egress, prefix + root)
    if (hasLeft === false) return
    logger.warn(
      `database.dataDir was another one: responses ${hasLeft === true ? 'wait' : 'may wait'} in ${former}; stop the recorder and move ` +
        `the files from there to ${root}`,
    )
  } catch (error) {
    logger.debug(`the former data folder is not known: ${describeDatabaseError(error)}`)
  }
}

/** Names a segment by the service's time, so that the order of names is that of creation. */
export function segmentName(createdAt: ServiceMs, sequence: number, stream: StreamName, owner: string): string {
  return `${String(createdAt).padStart(15, '0')}-${String(sequence).padStart(9, '0')}.${stream}.${owner}.seg`
}

const segmentPattern = new RegExp(String.raw`^(\d{15})-\d{9}\.([a-z_]+)\.(${ownerPattern})\.seg$`)

/** Reads a segment's name; null when it is another file. */
export function parseSegmentName(name: string): { readonly stream: StreamName; readonly owner: string } | null {
  const [, , found, owner] = segmentPattern.exec(name) ?? []
  const stream = streamNames.find((one) => one === found)
  return stream === undefined || owner === undefined ? null : { stream, owner }
}

/** Rejects if this file cannot be written. A full disk is no reason, because older segments make room. */
export async function requireWritable(disk: Disk, file: string): Promise<void> {
  try {
    await (await disk.open(file, 'ax', 0o600)).close()
    await disk.rm(file, { force: true })
  } catch (error) {
    if (!isFullDisk(error)) throw error
  }
}

/** Reads from a segment's name when the segment was created. */
export function createdAtOf(name: string): ServiceMs {
  return Number.parseInt(name, 10) as ServiceMs
}

/** Resolves to the folder noted by `noteSpool`; null if none is. */
async function readSpool(db: Kysely<Database>, egress: string): Promise<string | null> {
  const ofEgress = db.selectFrom('recorder.lease').select('spool').where('egress', '=', egress)
  return (await ofEgress.executeTakeFirst())?.spool ?? null
}

/** Notes the folder where an owner's responses wait for the database. */
async function noteSpool(db: Kysely<Database>, egress: string, spool: string): Promise<void> {
  await db.updateTable('recorder.lease').set({ spool }).where('egress', '=', egress).execute()
}
