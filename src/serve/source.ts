import { rm } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import type { Queue } from '../collect/queue/queue.js'
import type { FleetReport } from '../collect/fleet/fleet.js'
import type { BackfillStatus } from './api/contract.js'
import type { IncidentReport } from '../runtime/incidents.js'
import type { CollectorStats } from '../collect/streams/stream.js'
import type { MachineMs, ServiceMs } from '../market/values.js'
import type { Collector } from '../collect/collector.js'
import type { PacerStats } from '../exchange/limits/pacer.js'
import { type Clock, within } from '../runtime/clock.js'
import { readNote, replaceNote, systemDisk } from '../runtime/disk.js'
import { describeProcess, hasProcessEnded } from '../runtime/folderLock.js'

/** The running recorder in the view of the server, which only reads it. */
export interface RecorderSource {
  readonly egress: string
  readonly startedAt: MachineMs
  readonly spoolMaxBytes: number
  readonly streams: CollectorStats
  /** Returns the time of the service's clock; null before its first response. */
  readonly serviceNow: () => ServiceMs | null
  /** Returns `waiting` while another recorder owns the budget of the egress. */
  readonly phase: () => 'waiting' | Collector['phase']
  readonly incidents: () => readonly IncidentReport[]
  /** Counts responses that are not in the database yet, in memory and on disk. */
  readonly backlog: Queue['backlog']
  /** Returns how much of the service's limits is in use, and how many requests wait. */
  readonly budget: () => PacerStats
  /** Returns true if this recorder may send requests. The budget of an egress belongs to one recorder at a time. */
  readonly maySend: () => boolean
  /** Returns how the work is shared with other recorders of the database. */
  readonly fleet: () => FleetReport
  /** Reads backfills that wait, run or have failed. Rejects if the database does not respond. */
  readonly backfills: () => Promise<readonly BackfillStatus[]>
}

const fileName = 'page-address.json'
/** A recorder on a busy machine may take seconds to respond. */
const patienceMs = 10_000

interface Address {
  readonly url: string
  /** The process that serves at the address. Who else listens there must not get the password. */
  readonly owner: string
}

/** Writes the server's address to the data folder for the status command. The port may be any free one. */
export async function writeAddress(dataDir: string, url: string): Promise<void> {
  const owner = await describeProcess(systemDisk, process.pid)
  await replaceNote(systemDisk, join(dataDir, fileName), { url, owner } satisfies Address)
}

/** Reads the address that a server left; null if there is none. */
export async function readAddress(dataDir: string): Promise<(Address & { readonly hasEnded: boolean }) | null> {
  const { url = '', owner = '' } = (await readNote<Address>(systemDisk, join(dataDir, fileName))) ?? {}
  if (!url.startsWith('http://')) return null
  return { url, owner, hasEnded: await hasProcessEnded(systemDisk, owner) }
}

/** Reads the address of a server that still serves there; else null. After a crash, its port may be another's. */
export async function respondingAddress(clock: Clock, dataDir: string): Promise<string | null> {
  const { url, hasEnded } = (await readAddress(dataDir)) ?? { url: '', hasEnded: true }
  if (hasEnded) return null
  const waiting = new AbortController()
  const isServing = await within(clock, patienceMs, isHealthy(url, waiting.signal), false)
  waiting.abort()
  return isServing ? url : null
}

/** Resolves to whether a server says that it is healthy. */
async function isHealthy(url: string, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(new URL('/healthz', url), { agent: false, signal }, ({ statusCode }) =>
      resolve(statusCode === 200),
    )
    request.on('error', () => resolve(false))
  })
}

/** Removes the address, unless another server has written its own since. */
export async function removeAddress(dataDir: string, url: string): Promise<void> {
  if ((await readAddress(dataDir))?.url === url) await rm(join(dataDir, fileName), { force: true })
}
