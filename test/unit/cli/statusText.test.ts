import { describe, expect, test } from 'vitest'
import { type Screen, statusText, storedText } from '../../../src/cli/statusText.js'
import { enabledStreams } from '../../../src/collect/streams/streams.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { type StreamName, streamNames } from '../../../src/market/stream.js'
import { freshnessLimits } from '../../../src/serve/freshness.js'
import { Sampler } from '../../../src/serve/sampler.js'
import { statusReport } from '../../../src/serve/reporter.js'
import { freshen, settableSource, type SettableSource } from '../../support/recorderSource.js'

const now = Date.UTC(2026, 10, 20, 12, 0, 0)

function text(prepare: (source: SettableSource) => void, isReachable = true, screen?: Screen): string {
  const source = settableSource(now - 3_600_000)
  freshen(source, now - 4000)
  prepare(source)
  const sampler = new Sampler(source, { now: () => now })
  sampler.close()
  const database = {
    isReachable,
    respondedAt: now - 90_000,
    latencyMs: isReachable ? 2 : null,
    lagMs: null,
    error: isReachable ? null : 'refused',
    overview: { bytes: 12_345_678, gaps: [{ stream: 'fills', state: 'lost', reason: 'x', count: 1234 } as const] },
    jobs: null,
  }
  const limits = freshnessLimits(loadConfig({ env: {} }))
  const { backfills } = source.state
  return statusText(
    statusReport({ now, nowMs: 0, instanceId: 'i', version: '1.2.3', source, sampler, limits, database, backfills }),
    false,
    screen,
  )
}

describe('the status on a terminal', () => {
  test('says at once that all is well', () => {
    const shown = text(() => undefined)
    expect(shown.split('\n')[0]).toBe('market-recorder 1.2.3 · recording · up 60 min · egress test · 12:00:00 UTC')
    expect(shown).toMatch(/^tickers +fresh +1 list +4 s +40 s/m)
    expect(shown).toMatch(/^order_books +fresh +\d+ +4 s/m)
    expect(shown).toMatch(/^Gaps {7}0 open, 1,234 lost, 0 repaired$/m)
    expect(shown).toMatch(/^fills .* 1,234$/m)
    expect(shown).toContain('12 MB on disk')
    // Streams that are off have no figures, and one line for all of them.
    expect(shown).toMatch(/^Off {8}taker_flow · long_short_ratios · /m)
    expect(shown).not.toMatch(/^taker_flow /m)
  })

  test('tells rows that were dropped from those that were not understood', () => {
    const shown = text(({ state }) => void Object.assign(state.stats.fills, { rowsRejected: 7, rowsDropped: 10_500 }))
    expect(shown).toMatch(/^fills .* 7 +1,234$/m)
    expect(shown).toMatch(/^Dropped {4}fills 10,500$/m)
    expect(text(() => undefined)).not.toContain('Dropped')
  })

  test('calls responses that have gone to the disk for seconds fresh', () => {
    expect(text(({ state }) => void (state.backlog.isSpooling = true))).toMatch(/^tickers +fresh /m)
    expect(text(({ state }) => void (state.backlog.spooledBytes = 600_000))).toMatch(/^tickers +by disk /m)
  })

  test('says first what is wrong', () => {
    const lines = text(({ state }) => void (state.stats.fills.lastStoredAt = now - 7_200_000), false).split('\n')
    expect(lines[0]).toContain('1 problem ')
    expect(lines[1]).toMatch(/^ {2}! The database has been away for .* Nothing is lost: responses go to the disk until/)
    expect(lines[2]).toBe('')
    expect(lines.join('\n')).toMatch(/^tickers +by disk /m)
  })

  test('calls nothing fresh by way of a disk that takes nothing', () => {
    const times = { since: now - 5000, lastAt: now, until: null }
    const lost = { what: 'lost responses', message: 'fills: ENOSPC', count: 3, ...times } as const
    for (const isReachable of [true, false]) {
      const shown = text(({ state }) => (state.incidents = [lost]), isReachable)
      expect(shown).toMatch(/^market-recorder .* problem.*\n {2}! Responses are lost: fills: ENOSPC\n/)
      expect(shown).not.toContain('by disk')
    }
  })

  test('fits the screen, with what is wrong and every stream that is recorded', () => {
    const screen = { columns: 80, rows: 23 }
    const shown = text(({ state }) => void (state.stats.fills.lastStoredAt = now - 7_200_000), false, screen)
    const lines = shown.split('\n')
    expect(lines.length).toBeLessThanOrEqual(23)
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80)
    expect(lines[1]).toMatch(/^ {2}! The database has been away for /)
    for (const { name } of enabledStreams(loadConfig({ env: {} }))) expect(shown).toMatch(new RegExp(`^${name} `, 'm'))
    for (const label of ['Requests', 'Waiting', 'Database', 'Gaps', 'Process']) {
      expect(shown).toMatch(new RegExp(`^${label} `, 'm'))
    }
  })

  test('tells of backfills and incidents', () => {
    const shown = text(({ state }) => {
      state.backfills = [
        { id: '1', what: 'BTC 1m', state: 'running', doneShare: 0.5, reachedAt: null, etaMs: 90_000, message: null },
      ]
      const times = { since: now - 5000, lastAt: now, until: null }
      state.incidents = [{ what: 'tickers', message: 'timeout', count: 3, ...times }]
    })
    expect(shown).toContain('BTC 1m: running ██████████░░░░░░░░░░ 50 %, 90 s left')
    expect(shown).toContain('11:59:55 tickers failed 3 times, still failing: timeout')
  })

  test('counts all backfills, and names one that failed before those that run', () => {
    const backfill = { doneShare: null, reachedAt: null, etaMs: null }
    const shown = text(({ state }) => {
      const numbers = Array.from({ length: 20 }, (_, index) => index)
      state.backfills = [
        ...numbers.map((id) => ({ ...backfill, id: `${id}`, what: 'A', state: 'running' as const, message: null })),
        { ...backfill, id: 'x', what: 'liquidations of B', state: 'failed' as const, message: 'timeout' },
      ]
    })
    expect(shown).toContain('Backfills: 20 running, 0 waiting, 1 failed\n  liquidations of B: failed (timeout)\n')
    expect(shown).toContain('\n  and 17 more')
  })

  test('fits a screen of 110 columns', () => {
    for (const line of text(() => undefined).split('\n')) expect(line.length).toBeLessThanOrEqual(110)
  })
})

test('without a recorder it says what the database holds', () => {
  const newest = { tickers: now - 60_000, fills: null } as unknown as Parameters<typeof storedText>[0]['newest']
  const jobs = { count: 17, failed: 1, late: 0, workers: 20, isFailingPair: false }
  const shown = storedText({ newest: { ...emptyNewest, ...newest }, gaps: [], bytes: 1000, jobs }, now)
  expect(shown).toMatch(/^ {2}! 1 of 17 jobs of TimescaleDB failed at their last run/)
  expect(shown).toMatch(/tickers +2026-11-20 11:59:00 UTC +60 s/)
  expect(shown).toMatch(/fills +none of the last two days/)
})

const emptyNewest = Object.fromEntries(streamNames.map((name) => [name, null])) as Record<StreamName, null>
