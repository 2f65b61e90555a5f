import { expect, vi } from 'vitest'
import { type Recorder, startRecorder } from '../../src/app.js'
import { type Config, loadConfig } from '../../src/config/resolve.js'
import type { StreamName } from '../../src/market/stream.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { Fault } from '../../src/simulator/faults.js'
import type { TestDatabase } from './database.js'
import { storeSpooled } from './storeSpooled.js'

/** Faults that together hit about three requests in ten. */
export const everyTenth: readonly Fault[] = [
  { kind: 'errorCode', code: '25000', probability: 0.1 },
  { kind: 'reset', probability: 0.1 },
  { kind: 'tornBody', probability: 0.1 },
]

interface Place {
  readonly database: TestDatabase
  readonly simulator: { readonly url: string }
  readonly dataDir: string
}

/** Starts a recorder of the instruments and of one more group of streams. */
export function recordOnly(
  option: keyof Config['streams'],
  { database, simulator, dataDir }: Place,
): Promise<Recorder> {
  const config = loadConfig({ env: { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url } })
  config.database.dataDir = dataDir
  config.serve.enabled = false
  for (const stream of Object.values(config.streams)) stream.enabled = false
  config.streams.instruments.enabled = true
  config.streams[option].enabled = true
  return startRecorder(config, createLogger('silent'))
}

/** Records until each target of some streams has had a response, and stores everything. */
export async function recordOnce(
  option: keyof Config['streams'],
  streams: readonly StreamName[],
  place: Place,
): Promise<void> {
  const recorder = await recordOnly(option, place)
  const { stats } = recorder.collector
  const enough = () => {
    for (const name of streams) {
      expect(stats[name].targets, name).toBeGreaterThan(0)
      expect(stats[name].responses, name).toBeGreaterThanOrEqual(stats[name].targets)
    }
  }
  await vi.waitFor(enough, { timeout: 120_000, interval: 200 })
  await recorder.stop()
  await storeSpooled(place.dataDir, place.database.database)
}
