import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { isRunning } from '../../runtime/process.js'
import { randomName } from '../../runtime/randomness.js'
import { type BucketOptions, type BucketPlace, isKind, openBucket } from '../bucket/client.js'
import {
  abortUploads,
  createObject,
  downloadObject,
  listObjects,
  putBytes,
  readObject,
  removeObject,
  uploadFile,
} from '../bucket/objects.js'
import type { ArchiveTarget } from './target.js'

interface BucketTargetOptions extends BucketOptions {
  /** Local folder for files that are being uploaded or downloaded. */
  readonly folder: string
}

const staged = 'staged-'
const fetched = 'fetched-'

/** An archive in a bucket of an S3-compatible service. */
export function bucketTarget(place: BucketPlace, options: BucketTargetOptions): ArchiveTarget {
  const { folder: root } = options
  const bucket = openBucket(place, options)
  const own = new Set<string>()
  let fetchFolder: Promise<string> | undefined
  const ownFolder = async (kind: string) => {
    await mkdir(root, { recursive: true, mode: 0o700 })
    const made = await mkdtemp(join(root, `${kind}${process.pid}-`))
    own.add(made)
    return made
  }
  return {
    name: bucket.name,
    list: (prefix) => listObjects(bucket, prefix),
    read: (path) => readObject(bucket, path),
    async fetch(path) {
      fetchFolder ??= ownFolder(fetched)
      const localPath = join(await fetchFolder, `${randomName(8)}.parquet`)
      const release = () => rm(localPath, { force: true })
      try {
        await downloadObject(bucket, path, localPath)
      } catch (error) {
        await release()
        if (!isKind('absent')(error)) throw error
        throw Object.assign(new Error(`${path} is not in ${bucket.name}`, { cause: error }), { code: 'ENOENT' })
      }
      return { localPath, release }
    },
    async stagingFolder() {
      await removeLeftFolders(root)
      // Unfinished uploads are invisible, but they take space and cost money.
      await abortUploads(bucket, 'table=')
      return ownFolder(staged)
    },
    async publish(localPath, path) {
      await uploadFile(bucket, localPath, path)
      await rm(localPath)
    },
    async create(path, text) {
      const before = await readObject(bucket, path)
      if (before !== null) return before.toString('utf8') === text
      // Without conditional writes, one writer may overwrite another. The writer that reads its own text back has
      // succeeded.
      if ((await createObject(bucket, path, text)) === 'unsupported') await putBytes(bucket, path, text)
      return (await readObject(bucket, path))?.toString('utf8') === text
    },
    remove: (path) => removeObject(bucket, path),
    async close() {
      bucket.close()
      fetchFolder = undefined
      for (const folder of own) await rm(folder, { recursive: true, force: true })
    },
  }
}

/**
 * Removes folders of processes that ended without closing. Staged folders always go, because only one archiver stages
 * files at a time. Fetched folders stay while their process runs.
 */
async function removeLeftFolders(root: string): Promise<void> {
  for (const name of await readdir(root).catch(() => [])) {
    const pid = Number(/^fetched-(\d+)-/.exec(name)?.[1])
    const isLeft = name.startsWith(staged) || (pid > 0 && !isRunning(pid))
    if (isLeft) await rm(join(root, name), { recursive: true, force: true })
  }
}
