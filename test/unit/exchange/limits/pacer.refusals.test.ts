import { describe, expect, it } from 'vitest'
import type { Settlement } from '../../../../src/exchange/limits/penalty.js'
import type { Operation } from '../../../../src/market/operation.js'
import { limitsOf } from '../../../support/fakeService.js'
import { answered, randomFrom, setUp } from '../../../support/pacing.js'

interface Sent {
  readonly atMs: number
  readonly operation: Operation
  readonly instrument: number
  readonly isRefused: boolean
}

type IsRefused = (instrument: number, operation: Operation, atMs: number) => boolean

/** What refusals may concern. */
type Meaning = 'target' | 'address' | 'limits'

const meanings = { target: { mayBeOwn: true }, address: {}, limits: { mayBeAlone: true } } as const

const minutes = 60_000
const all: readonly Operation[] = ['orderbook', 'fills', 'candles']

/** Keeps requesting these operations of a hundred instruments in turn. */
function traffic(meaning: Meaning, isRefused: IsRefused, operations = all, workers = 3) {
  const { clock, pacer } = setUp({ limits: limitsOf(20) })
  const startMs = clock.monotonicMs()
  const sent: Sent[] = []
  const refused: Settlement = { outcome: 'rate-limited', ...meanings[meaning] }
  const keepSending = async (operation: Operation, worker: number) => {
    for (let turn = worker; ; turn += workers) {
      const instrument = (turn * 37) % 100
      const target = `${operation} ${instrument}`
      // The instrument of a request for fills is chosen once it may depart.
      const departure = await pacer.acquire(operation, operation === 'fills' ? {} : { target })
      const atMs = departure.atMs - startMs
      const isThisRefused = isRefused(instrument, operation, atMs)
      sent.push({ atMs, operation, instrument, isRefused: isThisRefused })
      await clock.sleep(50)
      pacer.settle(departure, isThisRefused ? refused : answered, 'unknown', target)
    }
  }
  for (const operation of operations)
    for (let worker = 0; worker < workers; worker++) void keepSending(operation, worker)
  const between = (fromMs: number, toMs: number) => sent.filter(({ atMs }) => atMs >= fromMs && atMs < toMs)
  return { clock, pacer, between }
}

const isTenth = (instrument: number) => instrument % 10 === 3
const never = () => false
const always = () => true

describe('refusals of a tenth of the instruments', () => {
  const responsesOfOthers = async (meaning: Meaning, isRefused: IsRefused, operations: readonly Operation[]) => {
    const { clock, between } = traffic(meaning, isRefused, operations)
    await clock.advance(5 * minutes)
    const others = between(2 * minutes, 5 * minutes)
    return others.filter((request) => !request.isRefused && !isTenth(request.instrument)).length
  }

  it.each<[string, readonly Operation[]]>([
    ['all operations', all],
    ['fills', ['fills']],
  ])('leave the others what they have without: %s', async (_, operations) => {
    const without = await responsesOfOthers('target', never, operations)
    expect(await responsesOfOthers('target', isTenth, operations)).toBeGreaterThan(0.95 * without)
    expect(await responsesOfOthers('address', isTenth, operations)).toBeLessThan(0.2 * without)
  })

  it('pause everything for seconds, also when they begin later', async () => {
    for (const fromMs of [0, minutes]) {
      const { clock, between } = traffic('target', (instrument, _, atMs) => isTenth(instrument) && atMs >= fromMs)
      await clock.advance(3 * minutes)
      const times = between(0, 3 * minutes).map(({ atMs }) => atMs)
      const waits = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0))
      const pausedMs = waits.filter((ms) => ms > 1_000).reduce((sum, ms) => sum + ms, 0)
      expect(pausedMs).toBeGreaterThan(2_900)
      expect(pausedMs).toBeLessThan(6_000)
    }
  })

  it('pause nothing once only these are left of an operation', async () => {
    const { clock, between, pacer } = traffic('target', isTenth, ['orderbook', 'fills'])
    for (let instrument = 0; instrument < 40; instrument++) {
      const target = `history-candles ${instrument}`
      const outcome: Settlement = isTenth(instrument) ? { outcome: 'rate-limited', mayBeOwn: true } : answered
      const departure = pacer.acquire('history-candles', { target })
      await clock.advance(5_000)
      pacer.settle(await departure, outcome, 'unknown', target)
    }
    const before = between(0, 10 * minutes).length
    for (let round = 0; round < 30; round++) {
      const target = `history-candles ${(round % 4) * 10 + 3}`
      const departure = pacer.acquire('history-candles', { target })
      await clock.advance(1_000)
      pacer.settle(await departure, { outcome: 'rate-limited', mayBeOwn: true }, 'unknown', target)
      expect(pacer.stats().pausedMs).toBe(0)
    }
    expect(between(0, 10 * minutes).length - before).toBeGreaterThan(800)
  })

  it('hide no operation that is refused as a whole', async () => {
    const { clock, between } = traffic(
      'target',
      (instrument, operation, atMs) => isTenth(instrument) || (operation === 'candles' && atMs >= minutes),
    )
    await clock.advance(10 * minutes)
    const candles = between(minutes, 10 * minutes).filter(({ operation }) => operation === 'candles')
    expect(candles.length).toBeLessThan(100)
  })
})

describe('refusals of everything', () => {
  const from = minutes
  /** Requests in the first three minutes of a block, and how long everything paused at most. */
  const inBlock = async (meaning: Meaning, before: IsRefused, operations: readonly Operation[], workers: number) => {
    const isRefused: IsRefused = (...of) => of[2] >= from || before(...of)
    const { clock, pacer, between } = traffic(meaning, isRefused, operations, workers)
    let longestPausedMs = 0
    await clock.advance(from)
    for (let second = 0; second < 180; second++) {
      await clock.advance(1_000)
      longestPausedMs = Math.max(longestPausedMs, pacer.stats().pausedMs)
    }
    return { count: between(from, from + 3 * minutes).length, longestPausedMs }
  }

  it.each<[string, IsRefused]>([
    ['nothing', never],
    ['a tenth of the instruments', isTenth],
  ])('pause everything for as long as ever, after refusals of %s', async (_, before) => {
    for (const [operations, workers] of [[['fills'], 1] as const, [all, 1] as const, [all, 3] as const]) {
      const usual = await inBlock('address', never, operations, workers)
      const { count, longestPausedMs } = await inBlock('target', before, operations, workers)
      if (workers * operations.length === 1) expect(usual.count).toBe(7)
      expect(count).toBeLessThanOrEqual(usual.count)
      // Other recorders take over while everything pauses for more than ten seconds.
      expect(longestPausedMs).toBeGreaterThan(90_000)
    }
  })

  it('pause everything from the first request on', async () => {
    const { clock, between } = traffic('target', always, ['fills'], 1)
    await clock.advance(3 * minutes)
    expect(between(0, 3 * minutes)).toHaveLength(7)
  })
})

describe('too many requests, as the service says', () => {
  const isOne: IsRefused = (instrument, operation) => instrument === 3 && operation === 'orderbook'

  /** Requests of these operations in five minutes in which nothing is refused. */
  const usual = async (...operations: Operation[]) => {
    const { clock, between } = traffic('limits', never)
    await clock.advance(10 * minutes)
    return between(5 * minutes, 10 * minutes).filter(({ operation }) => operations.includes(operation)).length
  }

  it('always to one instrument pauses it alone, after a minute', async () => {
    const { clock, between } = traffic('limits', isOne)
    await clock.advance(10 * minutes)
    const others = between(5 * minutes, 10 * minutes).filter(({ isRefused }) => !isRefused).length
    expect(others).toBeGreaterThan(0.95 * (await usual(...all)))
  })

  it('always to an operation pauses it alone, with fewer and fewer requests', async () => {
    const { clock, between } = traffic('limits', (_, operation) => operation === 'candles')
    await clock.advance(20 * minutes)
    const sent = between(10 * minutes, 20 * minutes)
    const candles = sent.filter(({ operation }) => operation === 'candles').length
    expect(sent.length - candles).toBeGreaterThan(0.95 * 2 * (await usual('orderbook', 'fills')))
    expect(candles).toBeLessThan(5)
  })

  it.each([0.2, 0.5, 0.9])(
    'to a large share of requests pauses all for ever longer: %d of them',
    { timeout: 120_000 },
    async (share) => {
      const refusedOf = async (meaning: Meaning) => {
        const random = randomFrom(5)
        const { clock, between } = traffic(meaning, () => random() < share)
        await clock.advance(20 * minutes)
        return between(0, 20 * minutes).filter(({ isRefused }) => isRefused).length
      }
      expect(await refusedOf('limits')).toBeLessThanOrEqual(1.05 * (await refusedOf('address')) + 3)
    },
  )

  it('to all pauses all for as long as ever', async () => {
    const count = async (meaning: Meaning) => {
      const { clock, between } = traffic(meaning, (...of) => of[2] >= minutes)
      await clock.advance(10 * minutes)
      return between(minutes, 10 * minutes).length
    }
    expect(await count('limits')).toBe(await count('address'))
  })
})

describe('refusals among hundreds of responses', () => {
  /** Responses to each operation from the fifth minute to the tenth, and the share of these requests that is refused. */
  const served = async (meaning: Meaning, isRefused: IsRefused) => {
    const { clock, between } = traffic(meaning, isRefused)
    await clock.advance(10 * minutes)
    const sent = between(5 * minutes, 10 * minutes)
    const of = (operation: Operation) => sent.filter((request) => !request.isRefused && request.operation === operation)
    const refused = sent.filter((request) => request.isRefused).length / sent.length
    return { refused, books: of('orderbook').length, fills: of('fills').length, candles: of('candles').length }
  }

  /** A service that admits so many requests of an operation in any second, and counts refused ones, too. */
  const admitting = (limit: number): IsRefused => {
    let arrivals: number[] = []
    return (_, operation, atMs) => {
      if (operation !== 'orderbook') return false
      arrivals = [...arrivals.filter((arrivalMs) => arrivalMs > atMs - 1_000), atMs]
      return arrivals.length > limit
    }
  }

  it('leave most of the requests, as where another machine shares the address', async () => {
    const random = randomFrom(3)
    const usual = await served('limits', never)
    const { books, fills, candles } = await served('limits', () => random() < 0.001)
    expect(books).toBeGreaterThan(0.6 * usual.books)
    expect(fills).toBeGreaterThan(0.6 * usual.fills)
    expect(candles).toBeGreaterThan(0.6 * usual.candles)
  })

  it.each([15, 10])('use a limit that was lowered to %d a second, and leave the others alone', async (limit) => {
    const usual = await served('limits', never)
    const { refused, books, fills, candles } = await served('limits', admitting(limit))
    expect(refused).toBeLessThan(0.002)
    expect(books).toBeGreaterThan(0.75 * limit * 5 * 60)
    expect(fills).toBeGreaterThan(0.9 * usual.fills)
    expect(candles).toBeGreaterThan(0.9 * usual.candles)
  })

  it('raise no rate that still recovers from a block', async () => {
    const isOnce = (atMs: number) => Math.floor(atMs / 50) === 1_500
    const isBlock = (atMs: number) => atMs >= minutes && atMs < minutes + 5_000
    const { clock, pacer, between } = traffic('limits', (_, __, atMs) => isBlock(atMs) || isOnce(atMs))
    await clock.advance(1.3 * minutes)
    expect(between(70_000, 1.3 * minutes).filter(({ isRefused }) => isRefused).length).toBeGreaterThan(0)
    expect(pacer.stats()).toMatchObject({ pausedMs: 0 })
    expect(pacer.stats().rate).toBeLessThan(0.7)
    expect(pacer.stats().rate).toBeGreaterThan(0.5)
  })

  it.each<Meaning>(['limits', 'address'])('lower the rate of what they are about: %s', async (meaning) => {
    const usual = traffic(meaning, never)
    const { clock, pacer, between } = traffic(
      meaning,
      (_, operation, atMs) => operation === 'orderbook' && Math.floor(atMs / 50) === 1_200,
    )
    const share = (operation: Operation, fromMs: number, toMs: number) => {
      const count = (all: readonly Sent[]) => all.filter((request) => request.operation === operation).length
      return count(between(fromMs, toMs)) / count(usual.between(fromMs, toMs))
    }
    await usual.clock.advance(5 * minutes)
    await clock.advance(1.25 * minutes)
    expect(pacer.stats().rate).toBeLessThan(1)
    await clock.advance(3.75 * minutes)
    const [fromMs, toMs] = [minutes + 2_000, minutes + 12_000]
    expect(share('orderbook', fromMs, toMs)).toBeLessThan(0.97)
    expect(share('orderbook', fromMs, toMs)).toBeGreaterThan(0.85)
    if (meaning === 'limits') expect(share('fills', fromMs, toMs)).toBeGreaterThan(0.98)
    else expect(share('fills', fromMs, toMs)).toBeLessThan(0.97)
    expect(pacer.stats().rate).toBe(1)
    expect(share('orderbook', 4 * minutes, 5 * minutes)).toBeGreaterThan(0.98)
  })
})
