import { execFile, spawnSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { packageFile } from '../../../../src/runtime/process.js'
import { createTestDatabase } from '../../../support/database.js'
import { temporaryFolder } from '../../../support/temporaryFolder.js'

/** A file system of its own, which no other process sees. */
const own = ['unshare', '--user', '--map-root-user', '--mount'] as const
const canMount = spawnSync(own[0], [...own.slice(1), 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']).status === 0
const hint = canMount ? '' : ' (SKIPPED: file systems cannot be mounted here)'

const folder = temporaryFolder('full-disk')

test.skipIf(!canMount)(`a full disk leaves days that are whole, and every row that is not in one${hint}`, async () => {
  const source = await createTestDatabase()
  try {
    await source.database.pool.query(`
      insert into market.fills (category, symbol, ts, exec_id, side, price, size, is_rpi, received_at)
      select 'SPOT', 'BTCUSDT', ts, md5(n::text), 'buy', 60000, 1, false, ts
      from generate_series(0, 29999) as n
        cross join lateral (select timestamptz '2026-03-02 00:00:00Z' + (n - 100) * interval '2 seconds' as ts) as time`)
    const [place, config] = [join(folder, 'small'), join(folder, 'recorder.yaml')]
    await mkdir(place)
    await writeFile(
      config,
      `archive: { folder: '${place}/archive', tables: [fills] }\nstorage: { fills: { retentionDays: 1 } }\n` +
        `database: { dataDir: '${folder}/data' }\n`,
    )
    // The first day fits, and the second does not. Whatever is said last is what the archive holds.
    const script = `mount -t tmpfs -o size=160k tmpfs "$0" && "$@"; echo "exit $?"; cd "$0" && find . -type f | sort`
    const program = [process.execPath, packageFile('dist/program/main.js'), 'archive', '--remove', '--config', config]
    const { stdout, stderr } = await promisify(execFile)(
      own[0],
      [...own.slice(1), 'sh', '-c', script, place, ...program],
      { env: { PATH: process.env['PATH'], DATABASE_URL: source.url } },
    )
    expect(stderr).toMatch(
      /^error: no space is left on the disk of .*: make room there; the same command goes on from here$/m,
    )
    expect(stdout).toMatch(/^exit 1$/m)
    // No pointer names a file, because both days would have become visible together.
    expect(stdout).not.toMatch(/version-hint/)
    const { rows } = await source.database.pool.query('select count(*)::integer as fills from market.fills')
    expect(rows).toEqual([{ fills: 30_000 }])
  } finally {
    await source.drop()
  }
})
