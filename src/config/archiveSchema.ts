import { z } from 'zod'
import { archivedTableNames } from '../market/archivedTable.js'
import { whole } from './wholeNumber.js'

export const archive = z
  .strictObject({
    folder: z.string().min(1).exactOptional().describe('Folder of the archive. Without it nothing is archived.'),
    tables: z
      .array(z.enum(archivedTableNames))
      .min(1)
      .default(() => [...archivedTableNames])
      .describe('Tables to archive.'),
    afterHours: whole(1, 87_600)
      .default(24)
      .describe('How long after its end (UTC) a day is archived, hours: repair is over by then.'),
  })
  .prefault({})
  .describe(
    'Parquet files of settled days, with the proof of what they hold. With an archive, rows leave the database for their age only when their day is in it.',
  )
