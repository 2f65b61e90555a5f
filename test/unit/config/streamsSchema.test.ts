import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { ConfigError } from '../../../src/config/configError.js'
import { loadConfig } from '../../../src/config/resolve.js'

const folder = mkdtempSync(join(tmpdir(), 'config-lists-'))
afterAll(() => rmSync(folder, { recursive: true }))

function problemsOf(streams: Readonly<Record<string, unknown>>, storage = {}): readonly string[] {
  const file = join(folder, 'recorder.json')
  writeFileSync(file, JSON.stringify({ streams, storage }))
  try {
    loadConfig({ file, env: {} })
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

const off = { enabled: false }
const noStreams = { orderBooks: off, rpiOrderBooks: off, fills: off, candles: off }

test('streams that choose from lists need them, and it is said which do', () => {
  expect(problemsOf({ instruments: off, ...noStreams })).toEqual([])
  expect(problemsOf({ rpiSymbols: off, rpiOrderBooks: off })).toEqual([])

  const [without, ...others] = problemsOf({ instruments: off, ...noStreams, fills: {} })
  expect(others).toEqual([])
  expect(without).toMatch(/streams\.instruments\.enabled must be true while streams\.fills choose from its lists/)

  const [rpi, ...more] = problemsOf({ rpiSymbols: off })
  expect(more).toEqual([])
  expect(rpi).toMatch(/streams\.rpiSymbols\.enabled must be true while streams\.rpiOrderBooks chooses/)
})

test('a category that is not listed cannot be covered', () => {
  const instruments = { categories: ['SPOT'] }
  const spot = { select: { categories: ['SPOT'] } }
  // Streams of futures take what the lists have of them.
  expect(problemsOf({ instruments, orderBooks: spot, rpiOrderBooks: off, fills: spot, candles: spot })).toEqual([])
  const problems = problemsOf({ instruments, orderBooks: spot, rpiOrderBooks: off, fills: spot, candles: {} })
  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatch(
    /streams\.candles\.select\.categories must not name .*instruments\.categories leaves out \(USDT-FUTURES, COIN-FUTURES, USDC-FUTURES\)/,
  )
})

test('candles that are too old to be kept when they close are refused', () => {
  const candles = { intervals: ['1m', '1D', '1Wutc'] }
  const kept = (retentionDays: number) => problemsOf({ candles }, { candles: { retentionDays } })
  expect(kept(8)).toEqual([])
  expect(kept(7)).toEqual([expect.stringMatching(/storage\.candles\.retentionDays .*: 1Wutc would be too old/)])
  expect(kept(1)).toEqual([expect.stringContaining('1D, 1Wutc would be') as string])
  expect(problemsOf({ candles: { ...candles, enabled: false } }, { candles: { retentionDays: 1 } })).toEqual([])
})
