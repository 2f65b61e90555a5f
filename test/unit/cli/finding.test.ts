import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { checkPage } from '../../../src/cli/finding.js'
import { loadConfig } from '../../../src/config/resolve.js'
import { freshnessLimits } from '../../../src/serve/freshness.js'
import { statusReport } from '../../../src/serve/reporter.js'
import { Sampler } from '../../../src/serve/sampler.js'
import { writeAddress } from '../../../src/serve/source.js'
import { startFakeService } from '../../support/fakeService.js'
import { freshen, settableSource } from '../../support/recorderSource.js'

it('what a recorder at work says of itself is told', async () => {
  const now = Date.now()
  const source = settableSource(now - 3_600_000)
  freshen(source, now)
  const sampler = new Sampler(source, { now: () => now })
  sampler.close()
  const config = loadConfig({ env: {} })
  const limits = freshnessLimits(config)
  const database = {
    isReachable: true,
    respondedAt: now,
    latencyMs: 2,
    lagMs: null,
    error: null,
    overview: null,
    jobs: null,
  }
  const status = () =>
    statusReport({ now, nowMs: 0, instanceId: 'i', version: '1', source, sampler, limits, database, backfills: [] })
  const page = await startFakeService((_request, response) => void response.end(JSON.stringify(status())))
  const dataDir = await mkdtemp(join(tmpdir(), 'market-recorder-doctor-'))
  try {
    await writeAddress(dataDir, page.url)
    const found = async () => {
      const [, ...findings] = await checkPage({ ...config, database: { ...config.database, dataDir } })
      return findings.map(({ what, verdict, detail }) => `${what} ${verdict}: ${detail}`).join(', ')
    }
    expect(await found()).toBe('recorder ok: it records, and has no problem')
    source.state.maySend = false
    expect(await found()).toMatch(/^recorder failure: No requests are sent/)
    source.state.maySend = true
    source.state.backlog.spooledBytes = source.spoolMaxBytes
    expect(await found()).toMatch(/^recorder warning: The spool is 100 % full/)
  } finally {
    await page.close()
    await rm(dataDir, { recursive: true })
  }
})
