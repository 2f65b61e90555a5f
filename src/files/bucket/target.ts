import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdir, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isRunning } from '../../runtime/process.js'
import { randomName } from '../../runtime/randomness.js'
import type { ArchiveTarget } from '../layout/target.js'
import { type Bucket, type BucketOptions, type BucketPlace, nullOn, openBucket } from './client.js'

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
      if ((await nullOn(downloadObject(bucket, path, localPath), 'absent')) === null) {
        throw Object.assign(new Error(`${path} is not in ${bucket.name}`), { code: 'ENOENT' })
      }
      return { localPath, release: () => rm(localPath, { force: true }) }
    },
    async stagingFolder() {
      await removeLeftFolders(root)
      // Unfinished uploads are invisible, but they take space and cost money.
      await abortUploads(bucket, 'market/')
      return ownFolder(staged)
    },
    async publish(localPath, path) {
      await uploadFile(bucket, localPath, path)
      await rm(localPath)
    },
    async create(path, text) {
      const found = async () => (await readObject(bucket, path))?.toString('utf8')
      const before = await found()
      if (before !== undefined) return before === text
      const put = nullOn(putText(bucket, path, text, { IfNoneMatch: '*' }), 'exists').then(() => 'answered')
      const isUnsupported = (await nullOn(put, 'unsupported')) === null
      // Without conditional writes, one writer may overwrite another. The writer that reads its own text back has
      // succeeded.
      if (isUnsupported && (await found()) === undefined) await putText(bucket, path, text)
      return (await found()) === text
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

/** Lists all objects below a prefix, ascending by path. */
async function listObjects(bucket: Bucket, prefix: string): Promise<{ path: string; bytes: number }[]> {
  const found: { path: string; bytes: number }[] = []
  let ContinuationToken: string | undefined
  do {
    const input = { Bucket: bucket.bucket, Prefix: `${bucket.prefix}${prefix}`, ContinuationToken }
    const page = await bucket.send('list what it holds', (client, options) =>
      client.send(new ListObjectsV2Command(input), options),
    )
    for (const { Key = '', Size = 0 } of page.Contents ?? []) {
      found.push({ path: Key.slice(bucket.prefix.length), bytes: Size })
    }
    ContinuationToken = page.IsTruncated === true ? page.NextContinuationToken : undefined
  } while (ContinuationToken !== undefined)
  return found.toSorted((a, b) => (a.path < b.path ? -1 : 1))
}

/** Reads a small object whole; null if the object does not exist. */
async function readObject(bucket: Bucket, path: string): Promise<Buffer | null> {
  const read = bucket.send(`read ${path}`, async (client, options) => {
    const { Body } = await client.send(new GetObjectCommand(objectOf(bucket, path)), options)
    return Buffer.from((await Body?.transformToByteArray()) ?? [])
  })
  return nullOn(read, 'absent')
}

/**
 * Copies an object of any size into a file, which an error removes. After a cut connection, only the missing bytes are
 * requested again. Resolves to the number of bytes.
 */
async function downloadObject(bucket: Bucket, path: string, localPath: string): Promise<number> {
  const file = await open(localPath, 'w')
  let done = 0
  try {
    let etag: string | undefined
    for (let isWhole = false; !isWhole;) {
      const part = await bucket.send(`read ${path}`, async (client, options) => {
        const range = done === 0 ? {} : { Range: `bytes=${done}-`, IfMatch: etag }
        const response = await client.send(new GetObjectCommand({ ...objectOf(bucket, path), ...range }), options)
        const before = done
        try {
          for await (const chunk of (response.Body ?? []) as AsyncIterable<Uint8Array>) {
            await writeAt(file, chunk, done)
            done += chunk.length
          }
        } catch (error) {
          // Rethrow only when this attempt received no byte. Otherwise the loop requests the rest of the object.
          if (done === before) throw error
        }
        return { etag: response.ETag, bytes: before + (response.ContentLength ?? 0) }
      })
      etag = part.etag
      isWhole = done >= part.bytes
    }
    return done
  } catch (error) {
    await rm(localPath, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

async function writeAt(file: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < chunk.length;) {
    const { bytesWritten } = await file.write(chunk, done, chunk.length - done, position + done)
    done += bytesWritten
  }
}

async function removeObject(bucket: Bucket, path: string): Promise<void> {
  await bucket.send(`remove ${path}`, (client, options) =>
    client.send(new DeleteObjectCommand(objectOf(bucket, path)), options),
  )
}

/** Uploads a file in one visible step, and replaces the old one. Large files go in parts, one in memory at a time. */
async function uploadFile(bucket: Bucket, localPath: string, path: string): Promise<void> {
  const { size } = await stat(localPath)
  const params = { ...objectOf(bucket, path), Body: createReadStream(localPath) }
  const upload = new Upload({ client: patientClient(bucket, `write ${path}`), params, queueSize: 1 })
  if ((await nullOn(upload.done(), 'no upload')) !== null) return
  // An attempt whose response was lost may have completed the upload. The object then has the size of the file.
  const { ContentLength } = await bucket.send(`read ${path}`, (client, options) =>
    client.send(new HeadObjectCommand(objectOf(bucket, path)), options),
  )
  if (ContentLength !== size) throw new Error(`the upload of ${path} was ended by somebody else`)
}

/** Returns a client that repeats each request while the service is away. */
function patientClient(bucket: Bucket, doing: string): S3Client {
  const patient = Object.create(bucket.client) as S3Client
  const send = async (command: Parameters<S3Client['send']>[0]): Promise<unknown> => {
    const sent = bucket.send(doing, (client, options) => client.send(command, options))
    // The next run removes the rest of an upload. The error before this one is the one to report.
    return command instanceof AbortMultipartUploadCommand ? sent.catch(() => undefined) : sent
  }
  return Object.assign(patient, { send })
}

async function putText(
  bucket: Bucket,
  path: string,
  text: string,
  condition: { readonly IfNoneMatch?: '*' } = {},
): Promise<void> {
  const input = { ...objectOf(bucket, path), Body: text, ...condition }
  await bucket.send(`write ${path}`, (client, options) => client.send(new PutObjectCommand(input), options))
}

/** Aborts unfinished uploads below a prefix, because nobody will complete them. */
async function abortUploads(bucket: Bucket, prefix: string): Promise<void> {
  let page: ListMultipartUploadsCommandOutput | null = null
  do {
    const markers = { KeyMarker: page?.NextKeyMarker, UploadIdMarker: page?.NextUploadIdMarker }
    const input = { Bucket: bucket.bucket, Prefix: `${bucket.prefix}${prefix}`, ...markers }
    const listed: Promise<ListMultipartUploadsCommandOutput> = bucket.send(
      'list its unfinished uploads',
      (client, options) => client.send(new ListMultipartUploadsCommand(input), options),
    )
    // A server that cannot list uploads removes them by a rule of its own.
    page = await nullOn(listed, 'unsupported')
    for (const { Key, UploadId } of page?.Uploads ?? []) {
      const upload = { Bucket: bucket.bucket, Key, UploadId }
      const aborted = bucket.send('remove an unfinished upload', (client, options) =>
        client.send(new AbortMultipartUploadCommand(upload), options),
      )
      await nullOn(aborted, 'no upload', 'absent')
    }
  } while (page?.IsTruncated === true)
}

function objectOf({ bucket, prefix }: Bucket, path: string): { Bucket: string; Key: string } {
  return { Bucket: bucket, Key: `${prefix}${path}` }
}
