import { tmpdir } from 'node:os'
import { pino } from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import { acquireLease } from '../../../src/lease/lease.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { createTestDatabase } from '../../support/database.js'
import { within } from '../../support/leaseAddress.js'

test('a process that stood still says so, and names no other recorder', async () => {
  const database = await createTestDatabase()
  onTestFinished(() => database.drop())
  const lines: { readonly level: number; readonly msg: string }[] = []
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line) as (typeof lines)[number]) })
  const lease = await acquireLease(database.url, 'alone', { logger, clock: systemClock, folder: tmpdir() })
  onTestFinished(() => lease.release())
  const until = performance.now() + 3_500
  while (performance.now() < until);
  await vi.waitFor(() => expect(lines.at(-1)?.msg).toMatch(/late renewal: .*this process stood still for \d/), within)
  expect(lines.filter(({ level }) => level > 30)).toEqual([])
  expect(lease.maySend).toBe(true)
})
