import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { describeDatabaseError, rowChecks } from '../../../src/db/databaseError.js'
import { storeBatches } from '../../../src/ledger/storeBatches.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { aFill, someTime } from '../../support/marketRows.js'
import { batchOf } from '../../support/batches.js'

let test: TestDatabase
beforeAll(async () => {
  test = await createTestDatabase()
})
afterAll(() => test?.drop())
const run = (text: string) => test.database.pool.query(text)
afterEach(() => run('truncate market.fills, recorder.rejected_row'))

const rows = [aFill(), aFill({ execId: '2', ts: someTime + 5 })]
const batch = batchOf('fills', { category: 'SPOT', symbol: 'BTCUSDT' }, rows, someTime + 1_000)

async function contents() {
  const { db } = test.database
  const { rows: counts } = await sql<{ fills: number; rejected: number }>`
    select (select count(*)::int from market.fills) as fills, (select count(*)::int from recorder.rejected_row) as rejected`.execute(
    db,
  )
  return counts[0]
}

/** Statements that spoil the database, the error that follows from it, and how it is mended. */
const faults: readonly (readonly [string, string, RegExp, string])[] = [
  ...['P0001', '0A000', '54000', '55006', 'HV000', '22012', '23505', '23503'].map(
    (code) =>
      [
        `a trigger that raises ${code}`,
        `create function public.refuse() returns trigger language plpgsql as $$
           begin raise exception 'refused' using errcode = '${code}'; end $$;
         create trigger refuse before insert on market.fills for each row execute function public.refuse()`,
        /refused/,
        'drop trigger refuse on market.fills; drop function public.refuse()',
      ] as const,
  ),
  [
    'a trigger that copies into a table of its own, which is too narrow',
    `create table public.watch (symbol varchar(3));
     create function public.copy() returns trigger language plpgsql as $$
       begin insert into public.watch values (new.symbol); return null; end $$;
     create trigger copy after insert on market.fills for each row execute function public.copy()`,
    /value too long for type character varying\(3\); mend or drop that function or its trigger/,
    'drop trigger copy on market.fills; drop function public.copy(); drop table public.watch',
  ],
  [
    'a column that somebody added',
    'alter table market.fills add column venue text; alter table market.fills alter column venue set not null',
    /null value in column "venue"/,
    'alter table market.fills drop column venue',
  ],
  [
    'a check that is none of the recorder',
    `alter table market.fills add constraint no_such_size check (size = 'NaN')`,
    /no_such_size/,
    'alter table market.fills drop constraint no_such_size',
  ],
  [
    'a newer schema',
    `insert into recorder.migration values ('9999_later', '');
     alter table market.fills add column venue text; alter table market.fills alter column venue set not null`,
    /migrated by a newer market-recorder \(it has 9999_later\); upgrade this one/,
    `delete from recorder.migration where name like '9999%'; alter table market.fills drop column venue`,
  ],
]

describe('a database that is not as it should be', () => {
  it.each(faults)('rejects no row and stores them later: %s', async (_, spoil, line, mend) => {
    const { db } = test.database
    await run(spoil)
    try {
      const [outcome] = await storeBatches(db, [batch])
      expect(outcome?.isStored).toBe(false)
      if (outcome?.isStored === false) expect(describeDatabaseError(outcome.error)).toMatch(line)
      expect(await contents()).toEqual({ fills: 0, rejected: 0 })
    } finally {
      await run(mend)
    }
    expect(await storeBatches(db, [batch])).toMatchObject([{ isStored: true, inserted: 2, rejected: 0 }])
  })
})

describe('a row that cannot be stored', () => {
  it('is rejected alone, whatever check of the schema it breaks', async () => {
    const bad = [{ execId: '' }, { price: 'NaN' }, { size: 'Infinity' }, { price: '1,5' }].map((broken, index) =>
      aFill({ execId: `bad ${index}`, ts: someTime + index, ...broken }),
    )
    const outcomes = await storeBatches(test.database.db, [{ ...batch, rows: [...rows, ...bad] }, batch])
    expect(outcomes).toMatchObject([
      { isStored: true, inserted: 2, rejected: 4 },
      { isStored: true, unchanged: 2, rejected: 0 },
    ])
    expect(await contents()).toEqual({ fills: 2, rejected: 4 })
  })

  it('is told by the checks that the schema has, all of which are known', async () => {
    const { rows: checks } = await sql<{ name: string }>`
      select conname as name from pg_constraint
      where contype = 'c' and connamespace = 'market'::regnamespace order by 1`.execute(test.database.db)
    expect(checks.map(({ name }) => name)).toEqual([...rowChecks].toSorted())
  })
})
