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

/** Error codes for a network that is down or a connection that was cut. */
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

export function kindOf(error: unknown): ErrorKind {
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

export function isKind(...kinds: readonly ErrorKind[]): (error: unknown) => boolean {
  return (error) => kinds.includes(kindOf(error))
}

/** Returns the error as one line that says what to do. Text of the service about keys and signatures is left out. */
export function explained(
  error: unknown,
  { name, bucket, doing }: { readonly name: string; readonly bucket: string; readonly doing: string },
): Error {
  const { name: said, message, code, $metadata } = failureOf(error)
  const status = $metadata?.httpStatusCode
  const problem = said === 'Error' && typeof code === 'string' ? code : said
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
        return `${name} could not ${doing} (${what}): ${message}`
    }
  }
  if (said === 'Error' && /region is missing/i.test(message)) {
    return new Error(`the region of ${name} is not known: set archive.region, or AWS_REGION in the environment`, {
      cause: error,
    })
  }
  return new Error(line(), { cause: error })
}

function failureOf(error: unknown): Failure {
  return error instanceof Error ? error : { name: 'Error', message: String(error) }
}
