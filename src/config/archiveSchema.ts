import { z } from 'zod'
import { archivedTableNames } from '../market/archivedTable.js'
import { whole } from './wholeNumber.js'

/** A service's address carries no credentials: they would be shown wherever the address is. */
function isServiceUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password } = new URL(text)
  return /^https?:$/.test(protocol) && username === '' && password === ''
}

export const archive = z
  .strictObject({
    folder: z
      .string()
      .min(1)
      .exactOptional()
      .describe('Folder of the archive. With neither a folder nor a bucket nothing is archived.'),
    bucket: z
      .string()
      .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, { error: 'must be the name of a bucket, such as market-archive' })
      .exactOptional()
      .describe(
        'Bucket of the archive, instead of a folder: of Amazon S3 or a service that is compatible. Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_PROFILE) or the role of the machine.',
      ),
    prefix: z
      .string()
      .regex(/^[^/].*$/, { error: 'must not be empty or begin with a slash' })
      .exactOptional()
      .describe('What the names of everything in the bucket begin with, such as market/.'),
    endpoint: z
      .string()
      .refine(isServiceUrl, {
        error: 'must be a URL without credentials, such as https://s3.example.com',
      })
      .exactOptional()
      .describe('Address of the service that has the bucket. Default: that of Amazon S3.'),
    region: z
      .string()
      .min(1)
      .exactOptional()
      .describe('Region of the bucket. Default: AWS_REGION, or the region of the profile.'),
    forcePathStyle: z
      .boolean()
      .default(false)
      .describe(
        'Whether the bucket stands in the path of URLs instead of the name of the host, as many services other than Amazon want it.',
      ),
    tables: z
      .array(z.enum(archivedTableNames))
      .min(1)
      .default(() => [...archivedTableNames])
      .describe('Tables to archive.'),
    afterHours: whole(1, 87_600)
      .default(24)
      .describe('How long after its end (UTC) a day is archived, hours: repair is over by then.'),
  })
  .refine(({ folder, bucket }) => folder === undefined || bucket === undefined, {
    error: 'must have a folder or a bucket, not both',
  })
  .refine(
    ({ bucket, prefix, endpoint, region }) =>
      bucket !== undefined || (prefix === undefined && endpoint === undefined && region === undefined),
    { error: 'must name the bucket that prefix, endpoint and region are for' },
  )
  .prefault({})
  .describe(
    'Parquet files of settled days, with the proof of what they hold. With an archive, rows leave the database for their age only when their day is in it.',
  )

export function hasArchive({ folder, bucket }: Pick<z.output<typeof archive>, 'folder' | 'bucket'>): boolean {
  return folder !== undefined || bucket !== undefined
}
