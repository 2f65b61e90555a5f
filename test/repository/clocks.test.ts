import { expect, test } from 'vitest'
import { repositoryFiles } from '../support/repositoryFiles.js'

/** Where the clock of the database is read. What is judged about the market takes the time of the service instead. */
const databaseClock: Readonly<Record<string, string>> = {
  'src/lease/leaseRow.ts': 'leases',
  'src/ledger/wants.ts': 'time since a want ended, by the clock that noted its end',
  'src/server/timescale/currentState.ts': "the server's schedules",
  'src/server/timescale/server.ts': "the server's schedules",
  'src/ledger/gaps.ts': 'time since evidence was noted, by the clock that noted it',
  'src/ledger/read/overview.ts': 'delay of a standby server',
  'src/db/identity.ts': 'tells a person when the address was noted',
  'src/db/locks.ts': 'tells a person when a lock was taken',
  'src/db/columns.ts': 'the expressions for leases and waits, which bear that it is set back',
  'src/files/archive/state.ts': 'when a day of the archive is due again',
  'src/files/archive/adopt.ts': 'when a day of the archive is due again',
  'migrations/0003_corrections.ts': 'tells a person when a restatement was noticed',
  'migrations/0004_ledger.ts': 'for verdicts whose time nobody compares',
  'migrations/0006_recorders.ts': 'tells a person when something was noted, asked for or taken',
  'migrations/functions/candles.sql': 'ends a query that a user gives no end',
  'migrations/functions/marketQueries.sql': 'ends a query that a user gives no end',
  'migrations/functions/chunks.sql': 'schedules of the server, which run by its clock',
  'migrations/functions/claimFills.sql': 'tells a person when a gap was repaired',
  'migrations/functions/gaps.sql': 'tells a person when a gap was noted, lost or repaired',
  'migrations/functions/evidence.sql': 'time since evidence was noted, by the clock that noted it',
  'migrations/functions/triggers.sql': 'tells a person when a candle was revised',
}

/** Where a time of this machine stands for one of the service, because nothing else tells the time. */
const guesses: Readonly<Record<string, string>> = {
  'src/serve/server.ts': 'the page of an empty database',
  'src/collect/queue/spool.ts': 'age of what an earlier run left, before the first response',
  'src/cli/status.ts': 'ages for a person, where no recorder runs',
}

const readsDatabaseClock =
  /(?<![.\w])(?:now|clock_timestamp|statement_timestamp)\(\)(?!\s*[:{])|\bcurrent_timestamp\b|\bfn(?:<[^>]*>)?\('now'/i
const isSql =
  /`|fn.*'now'|'.*now\(\).*'|^\s*(?:--|select|from|where|and|or|on|set|update|delete|insert|values|case|when|then|else|coalesce)\b/i

function filesWith(pattern: RegExp, found: (line: string, path: string) => boolean): string[] {
  return repositoryFiles(pattern)
    .filter(({ text, path }) =>
      text.split('\n').some((line) => !/^\s*(?:\*|\/\/|\/\*\*|--)/.test(line) && found(line, path)),
    )
    .map(({ path }) => path)
}

test('the clock of the database is read in named places alone, and none is named in vain', () => {
  const found = filesWith(/^(?:src|migrations)\/.*\.(?:ts|sql)$/, (line, path) => {
    return readsDatabaseClock.test(line) && (path.startsWith('migrations/') || isSql.test(line))
  })
  expect(found.toSorted()).toEqual(Object.keys(databaseClock).toSorted())
})

test('a time of this machine stands for one of the service in named places alone, and none is named in vain', () => {
  const found = filesWith(/^src\/.*\.ts$/, (line) => /asIfService\(/.test(line))
  expect(found.toSorted()).toEqual(Object.keys(guesses).toSorted())
})

test.each(["where ts > now() - interval '1 hour'", "set({ noted_at: fn('now') })", 'default clock_timestamp()'])(
  'it would find: %s',
  (line) => {
    expect(readsDatabaseClock.test(line)).toBe(true)
  },
)
