import { setImmediate } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { commonFactor, explainedBy, type OpenRevision, simplestBetween } from '../../../src/ledger/commonFactor.js'

function decimal(units: bigint, scale: number): string {
  const digits = units.toString().padStart(scale + 1, '0')
  return scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(-scale)}`
}

/** Rounded half up, as the service writes it. */
function divided(numerator: bigint, denominator: bigint): bigint {
  return (2n * numerator + denominator) / (2n * denominator)
}

function revision(id: number, prices: readonly bigint[], volume: bigint, up: bigint, down: bigint): OpenRevision {
  const after = prices.map((price) => decimal(divided(price * up, down), 2))
  return {
    id,
    openTime: id * 60_000,
    old: { prices: prices.map((price) => decimal(price, 2)), volume: decimal(volume, 4) },
    new: { prices: after, volume: decimal(divided(volume * down, up), 4) },
  }
}

const price = fc.bigInt({ min: 50_000n, max: 90_000n })
const candles = fc.array(fc.tuple(price, price, price, price, fc.bigInt({ min: 0n, max: 10n ** 9n })), {
  minLength: 5,
  maxLength: 60,
})

describe('the factor of a restatement', () => {
  it('is found exactly, whatever the split, although prices are rounded', async () => {
    const splits = fc.constantFrom([1n, 2n], [1n, 3n], [2n, 3n], [1n, 10n], [1n, 20n], [10n, 1n], [3n, 1n])
    await fc.assert(
      fc.asyncProperty(candles, splits, async (rows, [up = 1n, down = 1n]) => {
        const revisions = rows.map(([a, b, c, d, volume], id) => revision(id, [a, b, c, d], volume, up, down))
        const found = await commonFactor(revisions)
        expect(found?.factor).toEqual({ numerator: up, denominator: down })
        expect(found?.explained).toHaveLength(revisions.length)
      }),
    )
  })

  it('is not seen in candles that changed by themselves', async () => {
    await fc.assert(
      fc.asyncProperty(candles, async (rows) => {
        const revisions = rows.map(([a, b, c, d, volume], id) => {
          const { old } = revision(id, [a, b, c, d], volume, 1n, 1n)
          return {
            id,
            openTime: id,
            old,
            new: { prices: [a, b + 1n, c, d].map((p) => decimal(p, 2)), volume: old.volume },
          }
        })
        expect(await commonFactor(revisions)).toBeNull()
      }),
    )
  })

  it('leaves out the candles that it does not explain', async () => {
    const split = Array.from({ length: 20 }, (_, id) => revision(id, [60_000n + BigInt(id) * 7n], 5_000n, 1n, 4n))
    const other = { ...revision(20, [60_000n], 5_000n, 1n, 1n), new: { prices: ['601.00'], volume: '0.5000' } }
    const found = await commonFactor([other, ...split])
    expect(found?.factor).toEqual({ numerator: 1n, denominator: 4n })
    expect(found?.explained.map(({ id }) => id)).toEqual(split.map(({ id }) => id))
  })

  it('is no split when volumes went the other way', async () => {
    const odd = Array.from({ length: 20 }, (_, id) => {
      const half = revision(id, [60_000n + BigInt(id)], 50_000n, 1n, 2n)
      return { ...half, new: { ...half.new, volume: '2.5000' } }
    })
    expect(await commonFactor(odd)).toBeNull()
  })

  it('is found in more candles than a call may have arguments', async () => {
    const year = Array.from({ length: 50_000 }, (_, id) => revision(id, [60_000n, 60_000n, 60_000n], 5_000n, 1n, 4n))
    const found = await commonFactor(year)
    expect(found?.explained).toHaveLength(year.length)
    expect(await explainedBy(year, { numerator: 1n, denominator: 4n })).toHaveLength(year.length)
  })

  it('is looked for in turns', async () => {
    const revisions = Array.from({ length: 5_000 }, (_, id) => revision(id, [60_000n + BigInt(id)], 5_000n, 1n, 4n))
    for (const look of [
      () => commonFactor(revisions),
      () => explainedBy(revisions, { numerator: 1n, denominator: 4n }),
    ]) {
      let isDone = false
      const looking = look().finally(() => (isDone = true))
      await setImmediate()
      expect(isDone).toBe(false)
      await looking
    }
  })
})

describe('the simplest fraction', () => {
  it('lies in the range, and none with a smaller denominator does', () => {
    const positive = fc.tuple(fc.bigInt({ min: 1n, max: 400n }), fc.bigInt({ min: 1n, max: 400n }))
    fc.assert(
      fc.property(positive, positive, ([a, b], [c, d]) => {
        const [low, high] =
          a * d <= c * b
            ? ([
                [a, b],
                [c, d],
              ] as const)
            : ([
                [c, d],
                [a, b],
              ] as const)
        const { numerator, denominator } = simplestBetween(
          { numerator: low[0], denominator: low[1] },
          { numerator: high[0], denominator: high[1] },
        )
        expect(numerator * low[1] >= low[0] * denominator && numerator * high[1] <= high[0] * denominator).toBe(true)
        for (let smaller = 1n; smaller < denominator; smaller++) {
          const least = (low[0] * smaller + low[1] - 1n) / low[1]
          expect(least * high[1] > high[0] * smaller).toBe(true)
        }
      }),
    )
  })
})
