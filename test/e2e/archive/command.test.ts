import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { archiveAll, filesOf, temporaryArchive } from '../../support/archives.js'
import { archivedFrom, loadArchivedMarket } from '../../support/archivedMarket.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { runProgram } from '../../support/program.js'

let source: TestDatabase
let archive: Awaited<ReturnType<typeof temporaryArchive>>
beforeAll(async () => {
  source = await createTestDatabase()
  await loadArchivedMarket(source.database.db)
  archive = await temporaryArchive()
  await archiveAll(source.database, archive.target, archivedFrom + 3 * 86_400_000)
})
afterAll(async () => {
  await archive.drop()
  await source.drop()
})

test('the command writes, verifies, certifies, restores and prunes, and says what it did', async () => {
  const config = join(archive.folder, '.recorder.yaml')
  await writeFile(config, `archive: { folder: '${archive.folder}', tables: [fills, candles] }\n`)
  const run = async (...args: string[]) => {
    const { exitCode, stdout, stderr } = await runProgram(['archive', ...args, '--config', config], {
      DATABASE_URL: source.url,
    })
    // Lines of progress are left out, because their number depends on the time that it takes.
    return { exitCode, said: stdout + stderr.replaceAll(/^\w+ of [\d-]+, \d+ rows\n/gm, '') }
  }
  expect(await run()).toEqual({
    exitCode: 0,
    said: `0 days of tables written to ${archive.folder}: a day is due 24 hours after its end, or when it has changed\n`,
  })
  const checked = await run('verify', '--table', 'fills')
  expect(checked.said).toMatch(/^\d+ days? of tables read, \d+ rows, \d+ compared with the database: ok\n$/)
  const days = ['--from', '2026-03-02', '--to', '2026-03-03']
  const certificate = await run('certify', '--table', 'candles', '--symbol', 'RARE*', ...days)
  expect(certificate.said).toContain('| SPOT RAREUSDT market 1H | 20.83 % | 1 | 1 | 0 |')
  expect(certificate.said).toContain(
    '- SPOT RAREUSDT market 1H: gap 2026-03-02T20:00:00.000Z to 2026-03-03T00:00:00.000Z, open: the service was away',
  )
  const one = await run('certify', '--table', 'fills', '--symbol', 'BTCUSDT', '--category', 'SPOT', ...days)
  const { rows: counted } = await sql<{ n: number }>`
    select count(*)::integer as n from market.fills
    where category = 'SPOT' and symbol = 'BTCUSDT' and ts >= '2026-03-02Z' and ts < '2026-03-03Z'`.execute(
    source.database.db,
  )
  expect(one.said).toContain(`\n${counted[0]?.n} rows in 1 day.\n`)
  expect(one.said).toContain(`| 2026-03-02 | SPOT | ${counted[0]?.n} | `)
  expect(one.said).not.toContain('FUTURES')
  expect(await run('certify', '--table', 'fills', '--symbol', 'NOSUCH', ...days)).toEqual({
    exitCode: 1,
    said: 'error: the archive has nothing of what is to be certified\n',
  })
  const listed = await run('certify', '--table', 'tickers', '--symbol', 'BTC*', ...days)
  expect(listed.said).toContain('| SPOT * | not claimed | 1 | 0 | 0 |')
  expect(listed.said).toContain('open: the spool was full')
  expect((await run('certify', '--table', 'candles')).exitCode).toBe(2)
  const into = await createTestDatabase()
  try {
    const target = ['restore', '--into', into.url, '--table', 'fills']
    expect(await run(...target, '--from', '2020-01-01', '--to', '2020-01-02')).toEqual({
      exitCode: 1,
      said: `error: the archive in ${archive.folder} has none of these days of fills\n`,
    })
    expect((await run(...target, ...days)).said).toMatch(
      /^1 day of tables restored, \d+ rows\nfills of 2026-03-02: \d+ rows\n$/,
    )
  } finally {
    await into.drop()
  }
  expect((await run('restore', '--table', 'fills')).exitCode).toBe(2)
  expect((await run('prune', '--dry-run')).said).toBe('would remove 0 files of 0 bytes\n')
  const [file] = await filesOf(archive.target, 'candles')
  await archive.target.remove(file?.path ?? '')
  expect(await run('certify', '--table', 'candles', ...days)).toEqual({
    exitCode: 1,
    said: `error: ${file?.path} is missing\n`,
  })
  const found = await run('verify', '--table', 'candles')
  expect(found.said).toMatch(/is missing; the next market-recorder archive writes the day anew\n/)
  expect((await run('--dry-run')).said).toBe(
    'candles of 2026-03-02 due\n1 day of tables due; nothing was written, and days without rows never are\n',
  )
  expect((await run()).said).toMatch(/candles of 2026-03-02: \d+ rows, \d+ bytes in \d files?\n/)
  expect((await run('verify', '--table', 'candles', '--offline')).said).toMatch(
    /^the database was not asked which days it has archived\n.*: ok\n$/,
  )
})
