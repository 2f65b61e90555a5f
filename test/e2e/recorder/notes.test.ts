import { tmpdir } from 'node:os'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startRecorder } from '../../../src/app.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { acquireLease } from '../../../src/lease/lease.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { startSimulator } from '../../../src/simulator/server.js'
import { createTestDatabase } from '../../support/database.js'
import { startTcpProxy } from '../../support/tcpProxy.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const dataDir = temporaryFolder('lease-notes')
const logger = pino({ level: 'silent' })

test('each recorder of a machine notes for itself whether another one waits for its address', async () => {
  const simulator = await startSimulator({ scale: 'tiny' })
  onTestFinished(() => simulator.close())
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const proxy = await startTcpProxy(database.url)
  onTestFinished(() => proxy.close())
  const start = (egress: string, signal?: AbortSignal) => {
    const env = {
      DATABASE_URL: proxy.through(database.url),
      EXCHANGE_BASE_URL: simulator.url,
      COLLECTOR_EGRESS: egress,
    }
    const config = loadConfig({ env })
    config.database.dataDir = dataDir
    config.serve.enabled = false
    return startRecorder(config, logger, signal && { signal })
  }
  const isNoted = (egress: string, isContended: boolean) =>
    vi.waitFor(
      async () => {
        const files = (await readdir(dataDir)).filter((name) => /^lease.*\.json$/.test(name))
        const notes = await Promise.all(files.map((name) => readFile(join(dataDir, name), 'utf8')))
        expect(notes.map((note): unknown => JSON.parse(note))).toContainEqual(
          expect.objectContaining({ egress, isContended }),
        )
      },
      { timeout: 120_000, interval: 20 },
    )
  const owner = await acquireLease(database.url, 'a', { logger, clock: systemClock, folder: tmpdir() })
  onTestFinished(() => owner.release())
  const stopping = new AbortController()
  const waiting = start('a', stopping.signal).catch(() => undefined)
  await isNoted('a', true)
  const other = await start('b')
  await isNoted('b', false)
  stopping.abort(new Error('stopped'))
  await waiting
  await other.stop()

  // The owner is on another machine, and goes on sending. So this recorder must not begin.
  await proxy.refuse()
  const stoppingAgain = new AbortController()
  let hasBegun = false
  const again = start('a', stoppingAgain.signal)
    .then(async (recorder) => {
      hasBegun = true
      await recorder.stop()
    })
    .catch(() => undefined)
  await sleep(4_000)
  stoppingAgain.abort(new Error('stopped'))
  await again
  expect(hasBegun).toBe(false)
})
