import {
  AbortMultipartUploadCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import type { Bucket } from './client.js'
import { isKind } from './errors.js'

/** Puts a file to its key, whatever was there; nobody sees a part of it. A large file goes in parts, one in memory at a time. */
export async function uploadFile(bucket: Bucket, localPath: string, path: string): Promise<void> {
  const { size } = await stat(localPath)
  const params = { ...objectOf(bucket, path), Body: createReadStream(localPath) }
  try {
    await new Upload({ client: patientClient(bucket, `write ${path}`), params, queueSize: 1 }).done()
  } catch (error) {
    if (!isKind('no upload')(error)) throw error
    // Completed by an attempt whose response was lost: then the object is there, as long as the file.
    const { ContentLength } = await bucket.send(`read ${path}`, (client, options) =>
      client.send(new HeadObjectCommand(objectOf(bucket, path)), options),
    )
    if (ContentLength !== size) throw new Error(`the upload of ${path} was ended by somebody else`, { cause: error })
  }
}

/** The client of a bucket, each request of which is sent again while the service is away. */
function patientClient(bucket: Bucket, doing: string): S3Client {
  const patient = Object.create(bucket.client) as S3Client
  const send = async (command: Parameters<S3Client['send']>[0]): Promise<unknown> => {
    const sent = bucket.send(doing, (client, options) => client.send(command, options), isKind('no upload'))
    // Whatever stays of an upload is removed by the next run; what went wrong before is the news.
    return command instanceof AbortMultipartUploadCommand ? sent.catch(() => undefined) : sent
  }
  return Object.assign(patient, { send })
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

export function objectOf({ bucket, prefix }: Bucket, path: string): { Bucket: string; Key: string } {
  return { Bucket: bucket, Key: `${prefix}${path}` }
}
