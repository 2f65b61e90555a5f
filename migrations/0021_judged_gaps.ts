import { type Kysely, sql } from 'kysely'
import { commentOn } from './comments.js'

/** Which lost gaps in fills were compared with candles, so that each is compared once. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table recorder.gap add column judged_at timestamptz;
    create index gap_not_judged on recorder.gap (id) where stream = 'fills' and state = 'lost' and judged_at is null`.execute(
    db,
  )
  await commentOn(db, {
    'recorder.gap': {
      kind: 'table',
      comment: 'A known gap in what was recorded. As an analyst sees it: market.gaps.',
      columns: {
        judged_at:
          'Lost gaps in fills: when the candles have shown that fills are missing, or were waited for in vain; NULL before, and for all others.',
      },
    },
  })
}
