import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { recordHeader, scanRecords } from '../../../../src/collect/queue/segmentWriter.js'

const bodies = fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 20 })

function encode(records: readonly Uint8Array[]) {
  const parts = records.map((body) => Buffer.concat([recordHeader(body), body]))
  const ends = parts.reduce<number[]>((sums, part) => [...sums, (sums.at(-1) ?? 0) + part.length], [])
  return { bytes: Buffer.concat(parts), ends }
}

const texts = (records: readonly Uint8Array[]) => records.map((body) => Buffer.from(body).toString('hex'))

describe('records of the spool', () => {
  test('what was written is read', () => {
    fc.assert(
      fc.property(bodies, (records) => {
        const scanned = scanRecords(encode(records).bytes)
        expect(texts(scanned.records)).toEqual(texts(records))
        expect(scanned.damagedStretches).toBe(0)
      }),
    )
  })

  test('a cut at any place loses the record it goes through and is reported', () => {
    fc.assert(
      fc.property(bodies, fc.nat(), (records, at) => {
        const { bytes, ends } = encode(records)
        const cut = at % (bytes.length + 1)
        const whole = ends.filter((end) => end <= cut).length
        const scanned = scanRecords(bytes.subarray(0, cut))
        expect(texts(scanned.records)).toEqual(texts(records.slice(0, whole)))
        expect(scanned.damagedStretches).toBe(whole > 0 && ends[whole - 1] === cut ? 0 : cut === 0 ? 0 : 1)
      }),
      { numRuns: 500 },
    )
  })

  test('a changed byte at any place loses the one record that it is in and is reported', () => {
    fc.assert(
      fc.property(bodies, fc.nat(), fc.integer({ min: 1, max: 255 }), (records, at, change) => {
        const { bytes, ends } = encode(records)
        const place = at % bytes.length
        bytes[place] = (bytes[place] ?? 0) ^ change
        const hit = ends.findIndex((end) => place < end)
        const scanned = scanRecords(bytes)
        expect(texts(scanned.records)).toEqual(texts(records.filter((_, index) => index !== hit)))
        expect(scanned.damagedStretches).toBe(1)
      }),
      { numRuns: 1_000 },
    )
  })

  test('changes anywhere lose at most the records that they are in', () => {
    fc.assert(
      fc.property(bodies, fc.array(fc.nat(), { maxLength: 8 }), (records, places) => {
        const { bytes, ends } = encode(records)
        const hit = new Set<number>()
        for (const place of new Set(places.map((any) => any % bytes.length))) {
          bytes[place] = (bytes[place] ?? 0) ^ 0x55
          hit.add(ends.findIndex((end) => place < end))
        }
        expect(texts(scanRecords(bytes).records)).toEqual(texts(records.filter((_, index) => !hit.has(index))))
      }),
      { numRuns: 1_000 },
    )
  })

  test('a record behind a torn one is found', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 200 }),
        fc.uint8Array({ maxLength: 200 }),
        fc.nat(),
        (torn, next, at) => {
          const { bytes: first } = encode([torn])
          const cut = at % first.length
          const missing = first.subarray(cut)
          // What is missing may be just what the next record begins with: then the torn one is whole again.
          fc.pre(!encode([next]).bytes.subarray(0, missing.length).equals(missing))
          const scanned = scanRecords(Buffer.concat([first.subarray(0, cut), encode([next]).bytes]))
          // The torn record's length may reach over the next one: its checksum then tells, and only that one is skipped.
          if (scanned.records.length > 0) expect(texts(scanned.records)).toEqual(texts([next]))
          expect(scanned.damagedStretches).toBe(cut === 0 ? 0 : 1)
        },
      ),
    )
  })

  test('bytes that never were records are no obstacle', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 500 }), bodies, (noise, records) => {
        const scanned = scanRecords(Buffer.concat([noise, encode(records).bytes]))
        expect(texts(scanned.records)).toEqual(texts(records))
      }),
    )
  })
})
