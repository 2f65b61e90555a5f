import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, lstat, open, readdir, readFile, realpath, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { isFullDisk, makeFolder, syncToDisk, systemDisk } from '../../runtime/disk.js'
import { randomName } from '../../runtime/randomness.js'

/** A part of an archive that is not as it was written. The message is one line. */
export class DamagedArchive extends Error {}

/** A place of an archive, a folder or a bucket. Paths begin at its root and have slashes. A failed call can be repeated. */
export interface ArchiveTarget {
  /** Name for messages, without credentials. */
  readonly name: string
  /** Lists all finished files below a prefix, ascending by path. */
  list(prefix: string): Promise<{ readonly path: string; readonly bytes: number }[]>
  /** Reads a small file whole; null when it is absent. */
  read(path: string): Promise<Buffer | null>
  /** Gives a file of any size as a file of this machine until it is released. Throws ENOENT when it is absent. */
  fetch(path: string): Promise<{ readonly localPath: string; release(): Promise<void> }>
  /** Makes an empty folder of this machine for files in the making, and removes what an earlier process left there. */
  stagingFolder(): Promise<string>
  /** Moves a finished file of the staging folder to its place, at once. */
  publish(localPath: string, path: string): Promise<void>
  /** Writes a small file at once and for good. False when there is one already. */
  create(path: string, text: string): Promise<boolean>
  remove(path: string): Promise<void>
  close(): Promise<void>
}

/** Folder of files in the making. Readers of `table=…` skip a name that begins with a dot. */
const partial = '.partial'

/** An archive in a folder of this machine, or in one that is mounted here. */
export function folderTarget(root: string): ArchiveTarget {
  const at = (path: string) => join(root, ...path.split('/'))
  let staging: string | undefined
  return {
    name: root,
    async list(prefix) {
      // A prefix ends with a slash: it is a folder.
      const entries = await readdir(at(prefix), { recursive: true, withFileTypes: true }).catch(orNothing([]))
      const paths = entries
        .filter((entry) => entry.isFile())
        .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
        .filter((path) => !path.startsWith(partial) && !path.endsWith('.new'))
      const found = await Promise.all(paths.map(async (path) => ({ path, bytes: (await stat(at(path))).size })))
      return found.toSorted((a, b) => (a.path < b.path ? -1 : 1))
    },
    async read(path) {
      const place = await regularFile(root, path).catch(orNothing(null))
      return place === null ? null : readFile(place).catch(orNothing(null))
    },
    async fetch(path) {
      return { localPath: await regularFile(root, path), release: () => Promise.resolve() }
    },
    async stagingFolder() {
      await rm(at(partial), { recursive: true, force: true })
      staging = join(at(partial), randomName(6))
      await makeFolder(staging)
      return staging
    },
    async publish(localPath, path) {
      await syncToDisk(systemDisk, localPath)
      await makeFolder(dirname(at(path)))
      await rename(localPath, at(path))
      await syncToDisk(systemDisk, dirname(at(path)))
    },
    async create(path, text) {
      const place = at(path)
      await makeFolder(dirname(place))
      const beside = `${place}.${randomName(6)}.new`
      const file = await open(beside, 'w')
      try {
        await file.writeFile(text)
        await file.sync()
      } finally {
        await file.close()
      }
      try {
        // Unlike a rename this fails where there is one already.
        await link(beside, place)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
        throw error
      } finally {
        await rm(beside, { force: true })
      }
      await syncToDisk(systemDisk, dirname(place))
      return true
    },
    async remove(path) {
      await rm(at(path), { force: true })
      await removeEmpty(root, dirname(at(path)))
    },
    async close() {
      if (staging === undefined) return
      await rm(staging, { recursive: true, force: true })
      await removeEmpty(root, at(partial))
    },
  }
}

/** Advises what to do about a full disk or quota; passes any other failure through. */
export function explainFullDisk(error: unknown, folder: string): unknown {
  if (!isFullDisk(error)) return error
  return new Error(`no space is left on the disk of ${folder}: make room there; the same command goes on from here`, {
    cause: error,
  })
}

/** Bytes and SHA-256 of a file of this machine, in bounded memory. */
export async function fileDigest(localPath: string): Promise<{ bytes: number; sha256: string }> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(localPath, { highWaterMark: 1 << 20 })) hash.update(chunk as Buffer)
  return { bytes: (await stat(localPath)).size, sha256: hash.digest('hex') }
}

/** The place of a file. Throws on links that lead out of the archive, and on devices and pipes, which could block a reader. */
async function regularFile(root: string, path: string): Promise<string> {
  const place = join(root, ...path.split('/'))
  const [realRoot, real] = await Promise.all([realpath(root), realpath(place)])
  const isInside = real.startsWith(`${realRoot}${sep}`)
  if (!isInside || !(await lstat(real)).isFile()) {
    throw new DamagedArchive(
      `${path} in ${root} is not a file of the archive: remove it, and copy the file itself there`,
    )
  }
  return real
}

async function removeEmpty(root: string, folder: string): Promise<void> {
  for (let here = folder; here.length > root.length; here = dirname(here)) {
    try {
      await rmdir(here)
    } catch {
      return
    }
  }
}

function orNothing<Nothing>(nothing: Nothing): (error: NodeJS.ErrnoException) => Nothing {
  return (error) => {
    if (error.code === 'ENOENT') return nothing
    throw error
  }
}
