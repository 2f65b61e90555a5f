import { DeleteObjectCommand, GetObjectCommand, ListObjectsV2Command } from '@aws-sdk/client-s3'
import { type FileHandle, open } from 'node:fs/promises'
import type { Bucket } from './client.js'
import { isKind } from './errors.js'
import { objectOf } from './upload.js'

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
