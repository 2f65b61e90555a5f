import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { type Bucket, isKind } from './client.js'

/** Lists all objects below a prefix, ascending by path. */
export async function listObjects(bucket: Bucket, prefix: string): Promise<{ path: string; bytes: number }[]> {
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
export async function readObject(bucket: Bucket, path: string): Promise<Buffer | null> {
  try {
    return await bucket.send(
      `read ${path}`,
      async (client, options) => {
        const { Body } = await client.send(new GetObjectCommand(objectOf(bucket, path)), options)
        return Buffer.from((await Body?.transformToByteArray()) ?? [])
      },
      isKind('absent'),
    )
  } catch (error) {
    if (isKind('absent')(error)) return null
    throw error
  }
}

/** Copies an object of any size into a file. After a cut connection, only the missing bytes are requested again. */
export async function downloadObject(bucket: Bucket, path: string, localPath: string): Promise<void> {
  const file = await open(localPath, 'w')
  try {
    let etag: string | undefined
    for (let done = 0, isWhole = false; !isWhole;) {
      const part = await bucket.send(
        `read ${path}`,
        async (client, options) => {
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
        },
        isKind('absent'),
      )
      etag = part.etag
      isWhole = done >= part.bytes
    }
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

export async function removeObject(bucket: Bucket, path: string): Promise<void> {
  await bucket.send(`remove ${path}`, (client, options) =>
    client.send(new DeleteObjectCommand(objectOf(bucket, path)), options),
  )
}

/** Uploads a file in one visible step, and replaces the old one. Large files go in parts, one in memory at a time. */
export async function uploadFile(bucket: Bucket, localPath: string, path: string): Promise<void> {
  const { size } = await stat(localPath)
  const params = { ...objectOf(bucket, path), Body: createReadStream(localPath) }
  try {
    await new Upload({ client: patientClient(bucket, `write ${path}`), params, queueSize: 1 }).done()
  } catch (error) {
    if (!isKind('no upload')(error)) throw error
    // An attempt whose response was lost may have completed the upload. The object then has the size of the file.
    const { ContentLength } = await bucket.send(`read ${path}`, (client, options) =>
      client.send(new HeadObjectCommand(objectOf(bucket, path)), options),
    )
    if (ContentLength !== size) throw new Error(`the upload of ${path} was ended by somebody else`, { cause: error })
  }
}

/** Returns a client that repeats each request while the service is away. */
function patientClient(bucket: Bucket, doing: string): S3Client {
  const patient = Object.create(bucket.client) as S3Client
  const send = async (command: Parameters<S3Client['send']>[0]): Promise<unknown> => {
    const sent = bucket.send(doing, (client, options) => client.send(command, options), isKind('no upload'))
    // The next run removes the rest of an upload. The error before this one is the one to report.
    return command instanceof AbortMultipartUploadCommand ? sent.catch(() => undefined) : sent
  }
  return Object.assign(patient, { send })
}

export async function putBytes(bucket: Bucket, path: string, body: Uint8Array | string): Promise<void> {
  const input = { ...objectOf(bucket, path), Body: body }
  await bucket.send(`write ${path}`, (client, options) => client.send(new PutObjectCommand(input), options))
}

/** Creates a small object if its key is free. Resolves to `unsupported` if the server cannot do that. */
export async function createObject(
  bucket: Bucket,
  path: string,
  body: string,
): Promise<'created' | 'exists' | 'unsupported'> {
  const input = { ...objectOf(bucket, path), Body: body, IfNoneMatch: '*' }
  try {
    await bucket.send(
      `write ${path}`,
      (client, options) => client.send(new PutObjectCommand(input), options),
      isKind('exists', 'unsupported'),
    )
    return 'created'
  } catch (error) {
    if (isKind('exists')(error)) return 'exists'
    if (isKind('unsupported')(error)) return 'unsupported'
    throw error
  }
}

/** Aborts unfinished uploads below a prefix, because nobody will complete them. Resolves to their number. */
export async function abortUploads(bucket: Bucket, prefix: string): Promise<number> {
  let aborted = 0
  let place: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } = {}
  for (;;) {
    const input = { Bucket: bucket.bucket, Prefix: `${bucket.prefix}${prefix}`, ...place }
    let page
    try {
      page = await bucket.send(
        'list its unfinished uploads',
        (client, options) => client.send(new ListMultipartUploadsCommand(input), options),
        isKind('unsupported'),
      )
    } catch (error) {
      // A server that cannot list uploads removes them by a rule of its own.
      if (isKind('unsupported')(error)) return aborted
      throw error
    }
    for (const { Key, UploadId } of page.Uploads ?? []) {
      await abortUpload(bucket, Key, UploadId)
      aborted++
    }
    if (page.IsTruncated !== true) return aborted
    place = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
  }
}

async function abortUpload(bucket: Bucket, Key: string | undefined, UploadId: string | undefined): Promise<void> {
  const input = { Bucket: bucket.bucket, Key, UploadId }
  try {
    await bucket.send(
      'remove an unfinished upload',
      (client, options) => client.send(new AbortMultipartUploadCommand(input), options),
      isKind('no upload', 'absent'),
    )
  } catch (error) {
    if (!isKind('no upload', 'absent')(error)) throw error
  }
}

function objectOf({ bucket, prefix }: Bucket, path: string): { Bucket: string; Key: string } {
  return { Bucket: bucket, Key: `${prefix}${path}` }
}
