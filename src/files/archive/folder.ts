import { link, mkdir, open, readdir, readFile, rename, rm, rmdir, stat } from 'node:fs/promises'
import { dirname, join, relative, sep } from 'node:path'
import { syncToDisk, systemDisk } from '../../runtime/disk.js'
import { randomName } from '../../runtime/randomness.js'
import type { ArchiveTarget } from './target.js'

/** Files in the making. A name that begins with a dot is left alone by what reads `table=…`. */
const partial = '.partial'

/** An archive in a folder of this machine, or of one that is mounted here. */
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
    read: (path) => readFile(at(path)).catch(orNothing(null)),
    fetch: (path) => Promise.resolve({ localPath: at(path), release: () => Promise.resolve() }),
    async stagingFolder() {
      await rm(at(partial), { recursive: true, force: true })
      staging = join(at(partial), randomName(6))
      await mkdir(staging, { recursive: true })
      return staging
    },
    async publish(localPath, path) {
      await syncToDisk(systemDisk, localPath)
      await mkdir(dirname(at(path)), { recursive: true })
      await rename(localPath, at(path))
      await syncToDisk(systemDisk, dirname(at(path)))
    },
    async create(path, text) {
      const place = at(path)
      await mkdir(dirname(place), { recursive: true })
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
