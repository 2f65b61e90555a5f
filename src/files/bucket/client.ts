import { S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { type Quote, quoteWithout } from '../../market/quote.js'
import { random } from '../../runtime/randomness.js'
import { backoffMs, type Clock } from '../../runtime/clock.js'

/** Kinds of bucket errors, one for each way to react. */
type ErrorKind =
  | 'passing'
  | 'absent'
  | 'exists'
  | 'no bucket'
  | 'no upload'
  | 'no credentials'
  | 'expired'
  | 'refused'
  | 'region'
  | 'clock'
  | 'unsupported'
  | 'other'

/** Fields of an SDK error that this module reads. */
interface Failure {
  readonly name: string
  readonly message: string
  readonly code?: unknown
  readonly $metadata?: { readonly httpStatusCode?: number }
}

const byName: Readonly<Record<string, ErrorKind>> = {
  NoSuchKey: 'absent',
  NotFound: 'absent',
  PreconditionFailed: 'exists',
  NoSuchBucket: 'no bucket',
  NoSuchUpload: 'no upload',
  CredentialsProviderError: 'no credentials',
  TokenProviderError: 'expired',
  ExpiredToken: 'expired',
  ExpiredTokenException: 'expired',
  TokenRefreshRequired: 'expired',
  PermanentRedirect: 'region',
  AuthorizationHeaderMalformed: 'region',
  IllegalLocationConstraintException: 'region',
  RequestTimeTooSkewed: 'clock',
  NotImplemented: 'unsupported',
  SlowDown: 'passing',
  ServiceUnavailable: 'passing',
  InternalError: 'passing',
  RequestTimeout: 'passing',
  TimeoutError: 'passing',
  ThrottlingException: 'passing',
  Throttling: 'passing',
  TooManyRequestsException: 'passing',
  RequestLimitExceeded: 'passing',
  OperationAborted: 'passing',
  ConditionalRequestConflict: 'passing',
}

/** Error codes of a network that is down or of a connection that was cut. */
const networkCodes = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ERR_STREAM_PREMATURE_CLOSE',
])

function kindOf(error: unknown): ErrorKind {
  const { name, code, $metadata } = failureOf(error)
  const named = byName[name]
  if (named !== undefined) return named
  if (typeof code === 'string' && networkCodes.has(code)) return 'passing'
  const status = $metadata?.httpStatusCode
  switch (status) {
    case undefined:
      return 'other'
    case 301:
    case 307:
      return 'region'
    case 401:
    case 403:
      return 'refused'
    case 404:
      return 'absent'
    case 409:
    case 412:
      return 'exists'
    case 408:
    case 429:
      return 'passing'
    case 501:
      return 'unsupported'
    default:
      return status >= 500 ? 'passing' : 'other'
  }
}

/** An error of a bucket. The message is one line that says what to do. */
class BucketError extends Error {
  constructor(
    readonly kind: ErrorKind,
    message: string,
    cause: unknown,
  ) {
    super(message, { cause })
  }
}

/** Resolves to null if the work fails with an error of one of these kinds. */
export async function nullOn<Result>(work: Promise<Result>, ...kinds: readonly ErrorKind[]): Promise<Result | null> {
  try {
    return await work
  } catch (error) {
    if (error instanceof BucketError && kinds.includes(error.kind)) return null
    throw error
  }
}

/** Returns the error as one line that says what to do. Text of the service about keys and signatures is left out. */
function explained(
  quote: Quote,
  error: unknown,
  { name, bucket, doing }: { readonly name: string; readonly bucket: string; readonly doing: string },
): BucketError {
  const { name: said, message, code, $metadata } = failureOf(error)
  const status = $metadata?.httpStatusCode
  const problem = quote(said === 'Error' && typeof code === 'string' ? code : said, 100)
  const what = status === undefined ? problem : `${status} ${problem}`
  const line = (): string => {
    switch (kindOf(error)) {
      case 'no bucket':
        return `there is no bucket ${bucket}: create it, or correct archive.bucket and archive.endpoint`
      case 'no credentials':
        return `no credentials for ${name} were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, in the environment`
      case 'expired':
        return `the credentials for ${name} have expired: renew them; the same command goes on from here`
      case 'refused':
        return `${name} refuses to ${doing} (${what}): check the credentials, and that they may list the bucket and its uploads, and read, write and delete below its prefix`
      case 'region':
        return `${name} is served elsewhere (${what}): set archive.region to the region of the bucket`
      case 'clock':
        return `${name} refuses to ${doing} because the clock of this machine is wrong: set it`
      case 'passing':
        return `${name} could not ${doing} for minutes (${what}): look at the service and the network; the same command goes on from here`
      default:
        return `${name} could not ${doing} (${what}): ${quote(message, 300)}`
    }
  }
  if (said === 'Error' && /region is missing/i.test(message)) {
    return new BucketError(
      'region',
      `the region of ${name} is not known: set archive.region, or AWS_REGION in the environment`,
      error,
    )
  }
  return new BucketError(kindOf(error), line(), error)
}

/** Returns the credentials that a server got which responded with an error. */
async function secretsSent(client: S3Client, error: unknown): Promise<readonly string[]> {
  if (failureOf(error).$metadata?.httpStatusCode === undefined) return []
  const { accessKeyId, secretAccessKey, sessionToken = '' } = await client.config.credentials()
  return [accessKeyId, secretAccessKey, sessionToken]
}

function failureOf(error: unknown): Failure {
  return error instanceof Error ? error : { name: 'Error', message: String(error) }
}

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
  /** Wait after the first failure, in milliseconds. Each further wait is twice as long. A random part is subtracted. */
  readonly minMs: number
  readonly maxMs: number
  /** No attempt begins later than this after the first failure, in milliseconds. */
  readonly totalMs: number
}

const usual: Patience = { minMs: 250, maxMs: 20_000, totalMs: 300_000 }

export interface BucketOptions {
  readonly clock: Clock
  /** Aborts requests in progress. */
  readonly signal?: AbortSignal
  /** How long requests are repeated while the server is away. */
  readonly patience?: Patience
}

export interface Bucket extends BucketPlace {
  /** Name for messages, without credentials. */
  readonly name: string
  /** Client for code that sends its own requests. */
  readonly client: S3Client
  /** Sends one request, and repeats it while the server is away. Throws a `BucketError`. */
  send<Result>(
    doing: string,
    request: (client: S3Client, options: { readonly abortSignal: AbortSignal }) => Promise<Result>,
  ): Promise<Result>
  close(): void
}

/** Timeouts in milliseconds: for a connection without traffic, and for connecting. */
const silenceMs = 30_000
const connectMs = 10_000

/**
 * Opens a bucket without sending a request. The SDK finds the credentials in its usual places. These are the
 * environment, the shared profiles, and the role of a container or machine.
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
    async send(doing, request) {
      try {
        return await retrying(clock, () => request(client, { abortSignal }), { signal: abortSignal, patience })
      } catch (error) {
        signal?.throwIfAborted()
        throw explained(quoteWithout(await secretsSent(client, error)), error, { name, bucket: place.bucket, doing })
      }
    },
    close: () => client.destroy(),
  }
}

function settingsOf({ endpoint, region, forcePathStyle }: BucketPlace): S3ClientConfig {
  // Other services ignore regions, but a request to them must still be signed for one.
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

/** Repeats work while a server is away, busy or cuts connections. Throws the last error. */
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
      // After a refusal for a wrong clock, the SDK knows the server's time and signs with it.
      const isPassing = kind === 'passing' || (kind === 'clock' && failures === 1)
      if (!isPassing || isOver) throw error
      await clock.sleep(delayMs, signal)
    }
  }
}
