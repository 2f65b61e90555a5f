import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import type { Clock } from '../../runtime/clock.js'
import { explained } from './errors.js'
import { type Patience, retrying } from './retry.js'

export interface BucketPlace {
  readonly bucket: string
  /** Before every key; empty, or with a slash at its end. */
  readonly prefix: string
  /** Of another service than Amazon's: http://… or https://… */
  readonly endpoint?: string
  /** By default what the environment or the profile says. */
  readonly region?: string
  /** Whether the bucket stands in the path of a URL instead of the name of the host. */
  readonly forcePathStyle: boolean
}

export interface BucketOptions {
  readonly clock: Clock
  /** Ends whatever is under way. */
  readonly signal?: AbortSignal
  /** How long a server may be away. */
  readonly patience?: Patience
}

/** What a request to a bucket needs to be given beside its command. */
export interface RequestOptions {
  readonly abortSignal: AbortSignal
}

export interface Bucket extends BucketPlace {
  /** As messages name it. Without credentials. */
  readonly name: string
  /** Sends one request, again and again while the server is away. Throws one line that says what to do. */
  send<Result>(
    doing: string,
    request: (client: S3Client, options: RequestOptions) => Promise<Result>,
    isWanted?: (error: unknown) => boolean,
  ): Promise<Result>
  close(): void
}

/** A connection on which nothing moves is cut off; connecting takes less. */
const silenceMs = 30_000
const connectMs = 10_000

/**
 * Opens a bucket; nothing is sent yet. Credentials are those that the SDK finds in its usual places: the environment, the shared
 * files of profiles, and the roles of containers and machines.
 */
export function openBucket(place: BucketPlace, { clock, signal, patience }: BucketOptions): Bucket {
  // On standard error it says which versions of Node.js later releases of the SDK want: nothing that who runs this can act on.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true'
  const client = new S3Client(settingsOf(place))
  const name = `s3://${place.bucket}/${place.prefix}`
  const abortSignal = signal ?? new AbortController().signal
  return {
    ...place,
    name,
    async send(doing, request, isWanted = () => false) {
      try {
        return await retrying(clock, () => request(client, { abortSignal }), { signal: abortSignal, patience })
      } catch (error) {
        signal?.throwIfAborted()
        throw isWanted(error) ? error : explained(error, { name, bucket: place.bucket, doing })
      }
    },
    close: () => client.destroy(),
  }
}

function settingsOf({ endpoint, region, forcePathStyle }: BucketPlace): S3ClientConfig {
  // Another service has no regions that matter, but its requests are signed for one all the same.
  const fallback = endpoint === undefined ? undefined : (process.env['AWS_REGION'] ?? 'us-east-1')
  const known = region ?? fallback
  return {
    forcePathStyle,
    // One policy retries, and it can be told to stop.
    maxAttempts: 1,
    // What is written is read back and compared; older servers do not know checksums at the end of a body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: connectMs, socketTimeout: silenceMs },
    ...(endpoint !== undefined && { endpoint }),
    ...(known !== undefined && { region: known }),
  }
}
