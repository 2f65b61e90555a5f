import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { daysOnDisk } from '../../../../src/collect/plan/demand.js'
import { planConfig } from '../../../../src/collect/plan/plan.js'
import { assumedUniverse } from '../../../../src/collect/universe/planUniverse.js'
import { loadConfig, resolveConfig } from '../../../../src/config/resolve.js'
import { parseYaml } from '../../../../src/config/yaml.js'
import { judgeDisk } from '../../../../src/cli/doctor.js'
import { inBytes } from '../../../../src/runtime/text.js'

const defaults = loadConfig({ env: {} })
const { storage } = defaults
const tickers = { stream: 'tickers', bytesPerDay: 100, compressedBytesPerDay: 20 } as const

describe('how long the disk lasts', () => {
  test('goes by the bytes of a day, and by compressed ones behind the age at which the server compresses', () => {
    expect(daysOnDisk([tickers], storage, { freeBytes: 1_000, isCompressed: false })).toBeCloseTo(10, 1)
    // Two days as they are, and the other 800 bytes at 20 a day.
    expect(daysOnDisk([tickers], storage, { freeBytes: 1_000, isCompressed: true })).toBeCloseTo(42, 1)
  })

  test('has no end where what is kept fits', () => {
    const kept = { ...storage, tickers: { ...storage.tickers, retentionDays: 9 } }
    expect(daysOnDisk([tickers], kept, { freeBytes: 1_000, isCompressed: false })).toBe(Infinity)
    expect(daysOnDisk([tickers], kept, { freeBytes: 800, isCompressed: false })).toBeCloseTo(8, 1)
    // What has no retention fills the disk beside it.
    const fills = { ...tickers, stream: 'fills' } as const
    expect(daysOnDisk([tickers, fills], kept, { freeBytes: 2_800, isCompressed: false })).toBeCloseTo(19, 1)
  })

  test('is never shorter with more room, compression or a retention', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 1e12 }),
        fc.integer({ min: 0, max: 1e12 }),
        fc.integer({ min: 1, max: 400 }),
        (freeBytes, more, retentionDays) => {
          const days = (room: number, isCompressed: boolean, kept = storage) =>
            daysOnDisk([{ ...tickers, bytesPerDay: 1e9, compressedBytesPerDay: 2e8 }], kept, {
              freeBytes: room,
              isCompressed,
            }) + 0.02
          const plain = daysOnDisk([{ ...tickers, bytesPerDay: 1e9, compressedBytesPerDay: 2e8 }], storage, {
            freeBytes,
            isCompressed: false,
          })
          expect(days(freeBytes + more, false)).toBeGreaterThanOrEqual(plain)
          expect(days(freeBytes, true)).toBeGreaterThanOrEqual(plain)
          const kept = { ...storage, tickers: { ...storage.tickers, retentionDays } }
          expect(days(freeBytes, false, kept)).toBeGreaterThanOrEqual(plain)
        },
      ),
    )
  })
})

describe('the doctor', () => {
  const listed = { ...assumedUniverse(), kind: 'listed' as const }
  const plan = planConfig(defaults, listed)
  const room = (days: number) => ({ kind: 'postgresql' as const, folder: '/data', freeBytes: plan.bytesPerDay * days })

  test('warns of a disk that is full within two weeks, and says what to do', () => {
    expect(judgeDisk(defaults, plan, room(13))).toMatchObject({ what: 'disk', verdict: 'warning' })
    expect(judgeDisk(defaults, plan, room(13.5)).detail).toMatch(
      /^lasts 13 days: \d+ GB free at \/data, \d+ GB a day; set storage\.\*\.retentionDays, .*TimescaleDB Community/,
    )
    expect(judgeDisk(defaults, plan, room(15))).toMatchObject({ verdict: 'ok' })
    expect(judgeDisk(defaults, plan, { ...room(13), kind: 'timescale-community' })).toMatchObject({ verdict: 'ok' })
  })

  test.each([undefined, 'postgres://recorder@db.example.com/market'])(
    'fails where the disk takes no more, with the database at %s',
    (url) => {
      const config = loadConfig({ env: url === undefined ? {} : { DATABASE_URL: url } })
      const judged = (freeBytes: number) => judgeDisk(config, plan, { ...room(0), freeBytes })
      expect(judged(0)).toMatchObject({ what: 'disk', verdict: 'failure' })
      expect(judged(0).detail).toBe('0 B free at /data, too little to record; make room, or move database.dataDir')
      expect(judged(2 ** 24)).toMatchObject({ verdict: 'warning' })
    },
  )

  test('judges by the streams and instruments of the configuration, in the sizes of the plan', () => {
    const settings = `
streams:
  tickers: { enabled: false }
  orderBooks: { enabled: false }
  rpiOrderBooks: { enabled: false }
  fills: { select: { symbols: [SPOT-1] } }
  candles: { select: { symbols: [SPOT-1] } }`
    const few = resolveConfig({}, parseYaml(settings, 'a test'))
    const judged = judgeDisk(few, planConfig(few, listed), room(13))
    expect(judged.verdict).toBe('ok')
    expect(judged.detail).toContain(`${inBytes(planConfig(few, listed).bytesPerDay)} a day`)
    expect(judged.detail).toMatch(/^lasts \d{3,} days: /)
  })

  test('says at least how long it lasts while the instruments are not known', () => {
    const { detail } = judgeDisk(defaults, planConfig(defaults, assumedUniverse()), room(20.5))
    expect(detail).toMatch(/^lasts 20 days or longer: .*, at most \d+ GB a day, as the instruments are not known$/)
  })

  test('warns of a disk that is full before rows reach the age at which they are removed', () => {
    const kept = { ...defaults, storage: { ...storage, tickers: { ...storage.tickers, retentionDays: 90 } } }
    const judged = judgeDisk(kept, plan, room(20))
    expect(judged).toMatchObject({ verdict: 'warning' })
    expect(judged.detail).toMatch(/^lasts \d+ days, and rows are to be kept for 90 days: .*; lower storage/)
  })

  test('of a disk that holds all that is kept says so', () => {
    const days = Object.fromEntries(
      Object.entries(storage).map(([table, kept]) => [table, { ...kept, retentionDays: 9 }]),
    )
    const kept = { ...defaults, storage: days as unknown as typeof storage }
    const judged = judgeDisk(kept, plan, room(20))
    expect(judged).toMatchObject({ verdict: 'ok', detail: expect.stringMatching(/^never full, /) as string })
  })

  test('of a database elsewhere judges the room for what waits for it', () => {
    const elsewhere = loadConfig({ env: { DATABASE_URL: 'postgres://recorder@db.example.com/market' } })
    const { spoolMaxBytes } = elsewhere.collector
    const detail = /cannot be seen from here$/
    const enough = judgeDisk(elsewhere, plan, { ...room(0), freeBytes: spoolMaxBytes })
    expect(enough).toMatchObject({ verdict: 'ok', detail: expect.stringMatching(detail) as string })
    const little = judgeDisk(elsewhere, plan, { ...room(0), freeBytes: spoolMaxBytes - 1 })
    expect(little).toMatchObject({ verdict: 'warning', detail: expect.stringMatching(/spoolMaxBytes/) as string })
  })
})
