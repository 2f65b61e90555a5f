import { describe, expect, test } from 'vitest'
import { changesNeeded, type StorageSettings } from '../../../../src/server/timescale/reconcile.js'
import { type CurrentState, emptyState, type Policy, policyKey } from '../../../../src/server/timescale/currentState.js'
import type { ServerKind } from '../../../../src/server/timescale/server.js'
import { bucketsPerBatch, rollups } from '../../../../src/server/timescale/rollups.js'
import { timeTables } from '../../../../src/market/stream.js'
import { testStorage } from '../../../support/databaseServer.js'

const hour = 3_600_000
const texts = (kind: ServerKind, current: CurrentState, settings: StorageSettings, now = Date.now()) =>
  changesNeeded(kind, current, settings, now).map(({ text }) => text)

/** What a database of the Community edition has after all of the settings were applied. */
const complete: CurrentState = {
  hypertables: new Map(
    timeTables.map(({ name, seriesColumns, orderColumns }) => [
      name,
      {
        chunkHours: testStorage[name].chunkHours,
        columnstore: { segmentBy: seriesColumns.join(','), orderBy: orderColumns.join(',') },
      },
    ]),
  ),
  rollups: new Set(rollups.map(({ name }) => name)),
  rollupViews: new Set(rollups.map(({ name }) => name)),
  rollupsFinalBefore: null,
  policies: new Map<string, Policy>([
    ...timeTables.map(
      ({ name }) =>
        [
          policyKey('columnstore', name),
          { everyMs: hour, afterHours: testStorage[name].columnstoreAfterHours, hasPlace: true },
        ] as const,
    ),
    ...rollups.map(
      (rollup) =>
        [
          policyKey('refresh', rollup.name),
          {
            everyMs: rollup.refreshEveryMs,
            afterHours: null,
            hasPlace: true,
            bucketsPerBatch: bucketsPerBatch(rollup),
          },
        ] as const,
    ),
  ]),
}

describe('changes that are needed', () => {
  test('none on PostgreSQL alone, and none where everything is as it is configured', () => {
    expect(texts('postgresql', emptyState, testStorage)).toEqual([])
    expect(texts('timescale-community', complete, testStorage)).toEqual([])
    expect(texts('timescale-apache', { ...emptyState, hypertables: complete.hypertables }, testStorage)).toEqual([])
  })

  test('hypertables alone on the Apache edition, whatever else is configured', () => {
    const settings = { ...testStorage, fills: { ...testStorage.fills, retentionDays: 5 } }
    expect(texts('timescale-apache', emptyState, settings)).toEqual([
      'make market.tickers a hypertable with chunks of 1 day',
      'make market.order_books a hypertable with chunks of 1 day',
      'make market.rpi_order_books a hypertable with chunks of 1 day',
      'make market.fills a hypertable with chunks of 1 day',
      'make market.candles a hypertable with chunks of 7 days',
      'make market.funding_rates a hypertable with chunks of 30 days',
      'make market.funding_forecasts a hypertable with chunks of 7 days',
      'make market.liquidations a hypertable with chunks of 30 days',
      'make market.taker_flow a hypertable with chunks of 7 days',
      'make market.long_short_ratios a hypertable with chunks of 7 days',
      'make market.long_short_accounts a hypertable with chunks of 7 days',
      'make market.long_short_positions a hypertable with chunks of 7 days',
    ])
  })

  test('a refresh whose batches are left to the server', () => {
    const policies = new Map(complete.policies)
    policies.set(policyKey('refresh', 'ohlcv_5m'), {
      everyMs: hour / 12,
      afterHours: null,
      hasPlace: true,
      bucketsPerBatch: null,
    })
    expect(texts('timescale-community', { ...complete, policies }, testStorage)).toEqual([
      'refresh recorder.ohlcv_5m every 5 minutes',
    ])
  })

  test('the rest of a rollup whose filling was cut short', () => {
    const policies = new Map(complete.policies)
    policies.delete(policyKey('refresh', 'ohlcv_4h'))
    const rollupViews = new Set(complete.rollupViews)
    rollupViews.delete('ohlcv_4h')
    expect(texts('timescale-community', { ...complete, policies, rollupViews }, testStorage)).toEqual([
      'fill recorder.ohlcv_4h and refresh it every 60 minutes',
      'let market.ohlcv_4h read recorder.ohlcv_4h',
    ])
  })

  test('a schedule that somebody changed', () => {
    const policies = new Map(complete.policies).set(policyKey('columnstore', 'tickers'), {
      everyMs: 12 * hour,
      hasPlace: true,
      afterHours: 48,
    })
    expect(texts('timescale-community', { ...complete, policies }, testStorage)).toEqual([
      'convert chunks of market.tickers to the columnstore after 2 days',
    ])
  })

  test('a rollup of candles looks back to where candles were dropped, and all the way where none was', () => {
    const now = Date.now()
    const key = policyKey('refresh', 'ohlcv_5m')
    const withReach = (days: number | null, finalDays: number | null) => {
      const refresh = complete.policies.get(key)
      const afterHours = days === null ? null : days * 24
      const policies = new Map(complete.policies)
      if (refresh !== undefined) policies.set(key, { ...refresh, afterHours })
      const rollupsFinalBefore = finalDays === null ? null : now - finalDays * 24 * hour
      return texts('timescale-community', { ...complete, policies, rollupsFinalBefore }, testStorage, now)
    }
    const moved = ['refresh recorder.ohlcv_5m every 5 minutes']
    expect(withReach(null, null)).toEqual([])
    expect(withReach(null, 20)).toEqual(moved)
    expect(withReach(21, 20)).toEqual(moved)
    expect(withReach(20, 20)).toEqual([])
    expect(withReach(19.5, 20)).toEqual([])
    expect(withReach(17, 20)).toEqual(moved)
    expect(withReach(17, null)).toEqual(moved)
  })
})
