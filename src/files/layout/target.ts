import pLimit from 'p-limit'
import { link, lstat, readdir, readFile, realpath, rename, rm, rmdir, stat, writeFile } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { makeFolder, syncToDisk, systemDisk } from '../../runtime/disk.js'
import { randomName } from '../../runtime/randomness.js'

/** Thrown for a part of an archive that is not as it was written. The message is one line. */
export class DamagedArchive extends Error {}

/** Place of an archive: a folder or a bucket. Paths begin at its root and have slashes. Calls can be repeated. */
export interface ArchiveTarget {
  /** Name for messages, without credentials. */
  readonly name: string
  /** Lists all finished files below a prefix, ascending by path. */
  list(prefix: string): Promise<{ readonly path: string; readonly bytes: number }[]>
  /** Reads a small file whole; null if it does not exist. */
  read(path: string): Promise<Buffer | null>
  /** Provides a file of any size as a local file until it is released. Throws ENOENT if it does not exist. */
  fetch(path: string): Promise<{ readonly localPath: string; release(): Promise<void> }>
  /** Makes an empty local folder for files that are being written. Removes what an earlier process left there. */
  stagingFolder(): Promise<string>
  /** Moves a finished file from the staging folder to its place in one step. */
  publish(localPath: string, path: string): Promise<void>
  /** Writes a small file in one step and durably. Resolves to false if the file exists. */
  create(path: string, text: string): Promise<boolean>
  remove(path: string): Promise<void>
  close(): Promise<void>
}

/** Folder for files that are being written. Readers skip names that begin with a dot. */
const partial = '.partial'
/** Largest number of files whose size is asked for at once. */
const maxReadings = 16

/** An archive in a local or mounted folder. */
export function folderTarget(root: string): ArchiveTarget {
  const at = (path: string) => join(root, ...path.split('/'))
  let staging: string | undefined
  return {
    name: root,
    async list(prefix) {
      // A prefix ends with a slash, so it names a folder.
      const entries = await readdir(at(prefix), { recursive: true, withFileTypes: true }).catch(orNothing([]))
      const paths = entries
        .filter((entry) => entry.isFile())
        .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
        .filter((path) => !path.startsWith(partial) && !path.endsWith('.new'))
      const sizeOf = async (path: string) => ({ path, bytes: (await stat(at(path))).size })
      const found = await pLimit(maxReadings).map(paths, sizeOf)
      return found.toSorted((a, b) => (a.path < b.path ? -1 : 1))
    },
    async read(path) {
      const file = await regularFile(root, path).catch(orNothing(null))
      return file === null ? null : readFile(file).catch(orNothing(null))
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
      const file = at(path)
      await makeFolder(dirname(file))
      const beside = `${file}.${randomName(6)}.new`
      try {
        await writeFile(beside, text)
        await syncToDisk(systemDisk, beside)
        // A link fails if the file exists. A rename would replace the file.
        await link(beside, file)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
        throw error
      } finally {
        await rm(beside, { force: true })
      }
      await syncToDisk(systemDisk, dirname(file))
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

/** Returns the local path of a file. Throws on links out of the archive, and on devices and pipes that could block. */
async function regularFile(root: string, path: string): Promise<string> {
  const file = join(root, ...path.split('/'))
  const [realRoot, real] = await Promise.all([realpath(root), realpath(file)])
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
