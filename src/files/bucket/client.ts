import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { backoffMs, type Clock } from '../../runtime/clock.js'
import { random } from '../../runtime/randomness.js'
import { explained, kindOf } from './errors.js'

export interface BucketPlace {
  readonly bucket: string
  /** Prefix of every key: empty, or ending with a slash. */
  readonly prefix: string
  /** URL of an S3-compatible service, http://… or https://…; absent for Amazon S3. */
  readonly endpoint?: string
  /** Default: the region of the environment or of the profile. */
  readonly region?: string
  /** True when requests name the bucket in the path of the URL instead of in the host name. */
  readonly forcePathStyle: boolean
}

interface Patience {
  /** Wait after the first failure, in milliseconds. Each further wait is twice as long, and a random part shorter. */
  readonly minMs: number
  readonly maxMs: number
  /** No attempt begins later than this after the first failure. */
  readonly totalMs: number
}

const usual: Patience = { minMs: 250, maxMs: 20_000, totalMs: 300_000 }

export interface BucketOptions {
  readonly clock: Clock
  /** Aborts requests in progress. */
  readonly signal?: AbortSignal
  /** How long a server may be away. */
  readonly patience?: Patience
}

/** Options that every request to a bucket takes beside its command. */
interface RequestOptions {
  readonly abortSignal: AbortSignal
}

export interface Bucket extends BucketPlace {
  /** Name for messages, without credentials. */
  readonly name: string
  /** Client for code that sends its own requests. */
  readonly client: S3Client
  /** Sends one request, again and again while the server is away. Throws one line that says what to do. */
  send<Result>(
    doing: string,
    request: (client: S3Client, options: RequestOptions) => Promise<Result>,
    isWanted?: (error: unknown) => boolean,
  ): Promise<Result>
  close(): void
}

/** Timeouts in milliseconds: for a connection without traffic, and for connecting. */
const silenceMs = 30_000
const connectMs = 10_000

/**
 * Opens a bucket; nothing is sent yet. Credentials are those that the SDK finds in its usual places: the environment, the shared
 * files of profiles, and the roles of containers and machines.
 */
export function openBucket(place: BucketPlace, { clock, signal, patience }: BucketOptions): Bucket {
  // Turn off a warning about Node.js versions of later SDK releases: the operator cannot act on it.
  process.env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true'
  const client = new S3Client(settingsOf(place))
  const name = `s3://${place.bucket}/${place.prefix}`
  const abortSignal = signal ?? new AbortController().signal
  return {
    ...place,
    name,
    client,
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
  // Other services ignore regions, but requests to them are signed for one nevertheless.
  const fallback = endpoint === undefined ? undefined : (process.env['AWS_REGION'] ?? 'us-east-1')
  const known = region ?? fallback
  return {
    forcePathStyle,
    // Retries happen only in `retrying`, which can be aborted.
    maxAttempts: 1,
    // Uploads are read back and compared anyway. Older servers do not support checksums at the end of a body.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: connectMs, socketTimeout: silenceMs },
    ...(endpoint !== undefined && { endpoint }),
    ...(known !== undefined && { region: known }),
  }
}

/**
 * Repeats work after errors that pass by themselves: a server is away, busy or cuts connections. Throws the last error.
 */
async function retrying<Result>(
  clock: Clock,
  work: () => Promise<Result>,
  { signal, patience = usual }: { readonly signal: AbortSignal; readonly patience?: Patience | undefined },
): Promise<Result> {
  let firstFailureMs: number | undefined
  for (let failures = 1; ; failures++) {
    signal.throwIfAborted()
    try {
      return await work()
    } catch (error) {
      const kind = kindOf(error)
      firstFailureMs ??= clock.monotonicMs()
      const delayMs = backoffMs(failures, patience) * (0.5 + random() / 2)
      const isOver = clock.monotonicMs() - firstFailureMs + delayMs > patience.totalMs
      // The SDK has learned the server's time from the refusal, and signs with it from then on.
      const isPassing = kind === 'passing' || (kind === 'clock' && failures === 1)
      if (!isPassing || isOver) throw error
      await clock.sleep(delayMs, signal)
    }
  }
}
