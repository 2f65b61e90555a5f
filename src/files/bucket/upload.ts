import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { type FileHandle, open } from 'node:fs/promises'
import type { Bucket } from './client.js'
import { isKind } from './errors.js'

/** One part is in memory at a time. Services take 10,000 of them, and none but the last below 5 MiB. */
const minPartBytes = 5 << 20

/** Puts a file to its key, whatever was there; nobody sees a part of it. */
export async function uploadFile(bucket: Bucket, localPath: string, path: string): Promise<void> {
  const file = await open(localPath)
  try {
    const { size } = await file.stat()
    if (size <= minPartBytes) await putBytes(bucket, path, await readPart(file, 0, size))
    else await uploadParts(bucket, file, { path, size, partBytes: Math.max(minPartBytes, Math.ceil(size / 10_000)) })
  } finally {
    await file.close()
  }
}

export async function putBytes(bucket: Bucket, path: string, body: Uint8Array | string): Promise<void> {
  const input = { ...objectOf(bucket, path), Body: body }
  await bucket.send(`write ${path}`, (client, options) => client.send(new PutObjectCommand(input), options))
}

/** Puts a small file to its key if there is none yet. `unsupported` when the server cannot do that. */
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

async function uploadParts(
  bucket: Bucket,
  file: FileHandle,
  { path, size, partBytes }: { readonly path: string; readonly size: number; readonly partBytes: number },
): Promise<void> {
  const object = objectOf(bucket, path)
  const doing = `write ${path}`
  const { UploadId } = await bucket.send(doing, (client, options) =>
    client.send(new CreateMultipartUploadCommand(object), options),
  )
  const upload = { ...object, UploadId }
  try {
    const parts: CompletedPart[] = []
    for (let start = 0; start < size; start += partBytes) {
      const PartNumber = parts.length + 1
      const Body = await readPart(file, start, Math.min(partBytes, size - start))
      const { ETag } = await bucket.send(doing, (client, options) =>
        client.send(new UploadPartCommand({ ...upload, PartNumber, Body }), options),
      )
      parts.push({ PartNumber, ETag })
    }
    await complete(bucket, path, { ...upload, MultipartUpload: { Parts: parts } }, size)
  } catch (error) {
    // Whatever stays of it is removed by the next run; what went wrong is the news.
    await abortUpload(bucket, object.Key, UploadId).catch(() => undefined)
    throw error
  }
}

async function complete(
  bucket: Bucket,
  path: string,
  input: ConstructorParameters<typeof CompleteMultipartUploadCommand>[0],
  size: number,
): Promise<void> {
  try {
    await bucket.send(
      `write ${path}`,
      (client, options) => client.send(new CompleteMultipartUploadCommand(input), options),
      isKind('no upload'),
    )
  } catch (error) {
    if (!isKind('no upload')(error)) throw error
    // Completed by an attempt whose response was lost: then the object is there, as long as the file.
    const { ContentLength } = await bucket.send(`read ${path}`, (client, options) =>
      client.send(new HeadObjectCommand(objectOf(bucket, path)), options),
    )
    if (ContentLength !== size) throw new Error(`the upload of ${path} was ended by somebody else`, { cause: error })
  }
}

/** Removes the parts of uploads below a prefix that nobody will complete. Resolves to how many uploads there were. */
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
      // A server that does not list them has a rule of its own that removes them.
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

async function readPart(file: FileHandle, start: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, start)
  if (bytesRead !== length) throw new Error('a file in the making became shorter while it was uploaded')
  return buffer
}

export function objectOf({ bucket, prefix }: Bucket, path: string): { Bucket: string; Key: string } {
  return { Bucket: bucket, Key: `${prefix}${path}` }
}
