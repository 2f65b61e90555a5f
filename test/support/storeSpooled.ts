import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, vi } from 'vitest'
import { ledgerOf, Queue } from '../../src/collect/queue/queue.js'
import { createStats } from '../../src/collect/streams/stream.js'
import { systemClock } from '../../src/runtime/clock.js'
import { Incidents } from '../../src/runtime/incidents.js'
import { createLogger } from '../../src/runtime/logger.js'
import type { RecorderDatabase } from '../../src/db/database.js'
import { systemDisk } from '../../src/runtime/disk.js'

/**
 * Stores what a recorder that has ended has left on the disk, as the next one would at its start: where a machine is so busy that
 * the database takes long, nothing is lost, but not everything is in the database yet. Whose it is does not matter here.
 */
export async function storeSpooled(dataDir: string, { db }: RecorderDatabase): Promise<void> {
  const incidents = new Incidents(createLogger('silent'), systemClock)
  const spools = join(dataDir, 'spool')
  for (const name of await readdir(spools)) {
    const queue = await Queue.open(ledgerOf(db), {
      root: join(spools, name),
      maxBytes: 1e9,
      clock: systemClock,
      serviceNow: () => null,
      disk: systemDisk,
      incidents,
      stats: createStats(),
      onDamage: ({ file }) => {
        throw new Error(`${file} is damaged`)
      },
    })
    await vi.waitFor(() => expect(queue.backlog()).toMatchObject({ spooledBytes: 0, isSpooling: false }), {
      timeout: 200_000,
      interval: 50,
    })
    await queue.close(AbortSignal.timeout(10_000))
  }
}
