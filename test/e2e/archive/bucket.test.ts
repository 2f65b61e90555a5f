import { CreateMultipartUploadCommand, ListMultipartUploadsCommand, UploadPartCommand } from '@aws-sdk/client-s3'
import { randomBytes } from 'node:crypto'
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Kysely } from 'kysely'
import { marketTables } from '../../../src/market/stream.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { bucketTarget } from '../../../src/files/bucket/target.js'
import { certify } from '../../../src/files/archive/certify.js'
import { pruneArchive, verifyArchive } from '../../../src/files/archive/verify.js'
import { removeArchived } from '../../../src/files/archive/removal.js'
import { restoreArchive } from '../../../src/files/archive/restore.js'
import type { ArchiveTarget } from '../../../src/files/layout/target.js'
import type { Database } from '../../../src/db/schema.js'
import { upsertCandles } from '../../../src/ledger/storeCandles.js'
import { insertFills } from '../../support/insertFills.js'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { appendRows } from '../../../src/db/writeRows.js'
import { recordGap } from '../../../src/ledger/gaps.js'
import { archiveAll, everything, hintsOf, temporaryArchive } from '../../support/archives.js'
import { type TestDatabase, createTestDatabase } from '../../support/database.js'
import { aBook, aCandle, aFill, aTicker, anInstrument } from '../../support/marketRows.js'
import { type HttpFault, type HttpFaults, slowDown, startHttpFaults } from '../../support/httpFaults.js'
import { runProgram } from '../../support/program.js'
import { type S3Server, s3Environment, s3Missing, startS3 } from '../../support/s3.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'
import { addCoverage } from '../../support/coverage.js'

const missing = s3Missing()
const dayMs = 86_400_000
const from = Date.UTC(2026, 2, 2)
const later = from + 3 * dayMs
const days = { from: '2026-03-02', to: '2026-03-04' }
const hourMs = 3_600_000

/** Two days of some rows of each kind, with coverage and a gap over midnight. */
async function loadSmallMarket(db: Kysely<Database>): Promise<void> {
  const hours = Array.from({ length: 48 }, (_, hour) => from + hour * hourMs)
  await recordInstruments(db, 'SPOT', [anInstrument({ symbol: 'BTCUSDT' })], from)
  await insertFills(
    db,
    hours.flatMap((ts) => ['BTCUSDT', 'A/B'].map((symbol) => aFill({ symbol, ts, execId: `${ts}` }))),
  )
  await upsertCandles(
    db,
    hours.map((openTime) => aCandle({ openTime, interval: '1H' })),
  )
  await appendRows(
    db,
    'order_books',
    hours.map((ts) => aBook({ ts, bidPrices: ['1.5', '1'], bidSizes: ['2', '3'], askPrices: ['2'], askSizes: ['1'] })),
  )
  await appendRows(
    db,
    'tickers',
    hours.map((ts) => aTicker({ ts, lastPrice: '1.50' })),
  )
  const series = { stream: 'fills', category: 'SPOT', symbol: 'BTCUSDT', type: '', interval: '' } as const
  await addCoverage(db, series, [{ from, to: from + 20 * hourMs }])
  const range = { from: from + 20 * hourMs, to: from + 30 * hourMs }
  await recordGap(db, { ...series, range, reason: 'the service was away' })
}

const patience = { minMs: 1, maxMs: 10, totalMs: 60_000 }

describe.skipIf(missing !== '')(`an archive in a bucket${missing}`, () => {
  const folder = temporaryFolder('bucket')
  let server: S3Server
  let faults: HttpFaults
  let bucket: string
  let target: ArchiveTarget
  const open = (name: string, given = patience) =>
    bucketTarget(
      { bucket: name, prefix: 'market/', endpoint: faults.url, forcePathStyle: true },
      { clock: systemClock, folder: join(folder, 'files'), patience: given },
    )
  const uploads = async () =>
    (await server.client.send(new ListMultipartUploadsCommand({ Bucket: bucket }))).Uploads ?? []

  beforeAll(async () => {
    Object.assign(process.env, s3Environment)
    server = await startS3()
    faults = await startHttpFaults(server.url)
  })
  afterAll(async () => {
    for (const name of Object.keys(s3Environment)) delete process.env[name]
    await faults?.close()
    await server?.close()
  })
  beforeEach(async () => {
    bucket = await server.makeBucket()
    target = open(bucket)
  })
  afterEach(async () => {
    faults.decide = () => null
    faults.requests.length = 0
    await target.close()
    expect(await readdir(join(folder, 'files')).catch(() => [])).toEqual([])
  })

  describe('of a whole market', () => {
    let source: TestDatabase
    beforeEach(async () => {
      source = await createTestDatabase()
      await loadSmallMarket(source.database.db)
    })
    afterEach(() => source.drop())

    const problems = async (database?: TestDatabase) => {
      const found: string[] = []
      const pointers = await hintsOf(target)
      for await (const day of verifyArchive(target, { pointers, database: database?.database }))
        found.push(...day.problems)
      return found
    }
    const certified = async (place: ArchiveTarget) =>
      certify(place, { ...days, tables: marketTables, isWanted: () => true, pointers: await hintsOf(place) })
    test('proves, restores and certifies what a folder does', async () => {
      const inFolder = await temporaryArchive()
      const copy = await createTestDatabase()
      try {
        await archiveAll(source.database, inFolder.target, later)
        // As if it had never been archived.
        await source.database.pool.query('truncate recorder.archived_day, recorder.changed_day, iceberg.iceberg_tables')
        const { written } = await archiveAll(source.database, target, later)
        expect(written.length).toBeGreaterThan(5)
        expect((await archiveAll(source.database, target, later)).written).toEqual([])
        expect(await problems(source)).toEqual([])
        expect(await certified(target)).toEqual(await certified(inFolder.target))
        await restoreArchive(copy.database, target, { tables: marketTables, pointers: await hintsOf(target) })
        expect(await everything(copy.database)).toEqual(await everything(source.database))
        const tables = [{ name: 'fills', retentionDays: 1 }]
        const removed = await removeArchived(source.database, target, tables, { now: () => later })
        expect(removed.kept).toEqual([])
        expect((await source.database.pool.query('select from market.fills')).rowCount).toBe(0)
      } finally {
        await copy.drop()
        await inFolder.drop()
      }
    })

    test('is whole after a service that is busy, loses responses and cuts connections', async () => {
      let count = 0
      const storm: (HttpFault | null)[] = [slowDown, null, 'lose', slowDown, 'cut', null, 'refuse', null]
      faults.decide = () => storm[count++ % storm.length] ?? null
      const { written } = await archiveAll(source.database, target, later)
      expect(written.length).toBeGreaterThan(5)
      expect(await problems(source)).toEqual([])
      expect(await uploads()).toEqual([])
    })

    test('has nothing of a day that could not be finished, and the next run removes what is left of it', async () => {
      target = open(bucket, { ...patience, totalMs: 50 })
      let puts = 0
      faults.decide = ({ method }) => (method === 'PUT' && ++puts > 6 ? slowDown : null)
      await expect(archiveAll(source.database, target, later)).rejects.toThrow(
        /^s3:\/\/archive-\w+\/market\/ could not write .* for minutes \(503 SlowDown\): look at the service/,
      )
      faults.decide = () => null
      await writeFile(join(folder, 'stray'), 'PAR1')
      await target.publish(join(folder, 'stray'), 'market/candles/data/stray.parquet')
      expect(await problems()).toEqual([])
      await archiveAll(source.database, target, later)
      expect(await problems(source)).toEqual([])
      const prune = async () => pruneArchive(target, await hintsOf(target))
      expect((await prune()).files).toBeGreaterThan(0)
      expect(await prune()).toEqual({ files: 0, bytes: 0 })
      expect(await problems(source)).toEqual([])
    })

    test('is written, read and asked by the commands', async () => {
      const config = join(folder, 'recorder.yaml')
      await writeFile(
        config,
        `archive: { bucket: ${bucket}, prefix: market, endpoint: '${server.url}', forcePathStyle: true, tables: [fills] }\n`,
      )
      const run = (...args: string[]) =>
        runProgram([...args, '--config', config, '--data-dir', folder], {
          ...s3Environment,
          DATABASE_URL: source.url,
        })
      expect(await run('archive')).toMatchObject({
        exitCode: 0,
        stdout: expect.stringContaining(`2 days of tables written to s3://${bucket}/market/\n`) as string,
      })
      expect((await run('archive', 'certify', '--from', days.from, '--to', days.to)).exitCode).toBe(0)
      expect(await run('archive', 'prune')).toMatchObject({ stdout: 'removed 0 files of 0 bytes\n' })
    })
  })

  test('takes files of any size in parts, and gives them back over connections that are cut', async () => {
    const bytes = randomBytes(11_000_001)
    const local = join(folder, 'large')
    await writeFile(local, bytes)
    let requests = 0
    faults.decide = () => (requests++ % 3 === 1 ? slowDown : null)
    await target.publish(local, 'market/fills/data/large')
    expect(faults.requests.filter((line) => /partNumber=3/.test(line))).not.toEqual([])
    expect(await uploads()).toEqual([])
    faults.decide = () => 'cut'
    const reading = target.fetch('market/fills/data/large')
    await expect.poll(() => faults.requests.filter((line) => line.startsWith('GET')).length).toBeGreaterThan(3)
    faults.decide = () => null
    const fetched = await reading
    expect((await readFile(fetched.localPath)).equals(bytes)).toBe(true)
    await fetched.release()
  })

  test.each(['market/fills/data/given-up'])(
    'keeps the parts of an upload that was given up no longer than until the next run (%s)',
    async (path) => {
      const local = join(folder, 'given-up')
      await writeFile(local, randomBytes(6_000_000))
      target = open(bucket, { ...patience, totalMs: 20 })
      faults.decide = ({ url = '' }) => (url.includes('partNumber=2') || url.includes('uploadId') ? slowDown : null)
      await expect(target.publish(local, path)).rejects.toThrow('could not write')
      expect(await uploads()).toHaveLength(1)
      faults.decide = () => null
      const Key = 'elsewhere/upload'
      const { UploadId } = await server.client.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }))
      await server.client.send(new UploadPartCommand({ Bucket: bucket, Key, UploadId, PartNumber: 1, Body: 'part' }))
      await target.stagingFolder()
      expect((await uploads()).map((upload) => upload.Key)).toEqual([Key])
      expect(await target.list('')).toEqual([])
    },
  )

  test.each(['', 'unconditional-'])('lets one of two write metadata, whatever gets lost (%s)', async (kind) => {
    const other = open(bucket)
    if (kind !== '') {
      bucket = await server.makeBucket(`${kind}${randomBytes(4).toString('hex')}`)
      target = open(bucket)
    }
    const path = 'market/fills/metadata/v1.metadata.json'
    let puts = 0
    faults.decide = ({ method }) => (method === 'PUT' && puts++ === 0 ? 'lose' : null)
    expect(await target.create(path, 'first')).toBe(true)
    expect(puts).toBeGreaterThan(1)
    expect(await target.create(path, 'second')).toBe(false)
    expect((await target.read(path))?.toString()).toBe('first')
    await other.close()
  })

  test.each([
    ['a wrong secret', { AWS_SECRET_ACCESS_KEY: 'wrong' }, /refuses to read .* \(403 SignatureDoesNotMatch\): check/],
    [
      'no rights',
      { AWS_ACCESS_KEY_ID: 'test:guest', AWS_SECRET_ACCESS_KEY: 'guessing' },
      /refuses to .* \(403 AccessDenied\): check the credentials/,
    ],
    [
      'no credentials',
      { AWS_ACCESS_KEY_ID: '', AWS_SECRET_ACCESS_KEY: '', HOME: '/nonexistent' },
      /no credentials .* set AWS_ACCESS_KEY_ID and/,
    ],
    ['no such bucket', { BUCKET: 'missing-bucket' }, /there is no bucket missing-bucket: create it/],
  ])('says in a line what to do about %s', async (_, given, pattern) => {
    const { BUCKET = bucket, ...env } = given as Record<string, string>
    const config = join(folder, 'wrong.yaml')
    await writeFile(config, `archive: { bucket: ${BUCKET}, endpoint: '${server.url}', forcePathStyle: true }\n`)
    const { exitCode, stdout, stderr } = await runProgram(['archive', 'verify', '--offline', '--config', config], {
      ...s3Environment,
      ...env,
    })
    expect(exitCode).toBe(1)
    expect(stdout).toBe('')
    expect(stderr).toMatch(pattern)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(stderr).not.toMatch(/testing|guessing|test:tester|test:guest/)
  })

  test('says that credentials have expired', async () => {
    const body = '<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>'
    faults.decide = () => ({ status: 400, body })
    await expect(target.list('')).rejects.toThrow(/^the credentials for s3:\/\/.* have expired: renew them/)
    expect(faults.requests).toHaveLength(1)
  })

  test('ends at once when it is told to, also while a service is away', async () => {
    const stopping = new AbortController()
    const stopped = bucketTarget(
      { bucket, prefix: '', endpoint: faults.url, forcePathStyle: true },
      { clock: systemClock, folder, signal: stopping.signal },
    )
    faults.decide = () => slowDown
    const listing = stopped.list('')
    await expect.poll(() => faults.requests.length).toBeGreaterThan(0)
    stopping.abort(new Error('stopped'))
    await expect(listing).rejects.toThrow('stopped')
    await stopped.close()
  })
})
