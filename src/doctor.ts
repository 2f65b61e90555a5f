import { statfs } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { openExchange } from './app.js'
import { planConfig } from './collect/plan/plan.js'
import { assumedUniverse, type PlanUniverse } from './collect/universe/planUniverse.js'
import { readUniverse } from './collect/universe/readUniverse.js'
import type { Config } from './config/resolve.js'
import { openStore } from './openStore.js'
import type { Logger } from './runtime/logger.js'
import { openDatabase, type RecorderDatabase } from './store/db/database.js'
import { describeDatabaseError } from './store/db/databaseError.js'
import { pendingMigrations } from './store/db/migrate.js'
import { rightsBeyondReading } from './store/db/rights.js'
import { detectServer } from './store/timescale/server.js'
import { messageOf } from './runtime/messageOf.js'

export interface Finding {
  readonly what: string
  readonly verdict: 'ok' | 'warning' | 'failure'
  /** What was found and, where it is not good, what to do. */
  readonly detail: string
}

/** Clocks further apart than this make logs and gaps hard to read; candles are judged by the service's clock alone. */
const maxSkewMs = 2_000
const minFreeBytes = 5e9
const listWithinMs = 30_000

/** Looks at everything that recording needs. One failure does not keep the others from being looked at. */
export async function runDoctor(config: Config, logger: Logger): Promise<Finding[]> {
  const service = await checkService(config, logger)
  return [
    { what: 'configuration', verdict: 'ok', detail: 'every option is known and has a value' },
    checkLimits(config, service.universe),
    ...service.findings,
    ...(await checkDatabase(config, logger)),
    await checkDisk(config),
  ]
}

function checkLimits(config: Config, universe: PlanUniverse | null): Finding {
  const plan = planConfig(config, universe ?? assumedUniverse())
  const share = `${Math.round(plan.overall.share * 100)} % of the overall limit`
  const basis =
    universe === null ? 'for as many instruments as the live service was seen to list' : 'for its instruments'
  if (plan.fits) return { what: 'limits', verdict: 'ok', detail: `the streams need ${share} ${basis}` }
  return {
    what: 'limits',
    verdict: 'failure',
    detail: `the streams need more than the limits allow ${basis} (${share}); run "market-recorder plan" for what to change`,
  }
}

interface ServiceFindings {
  readonly findings: Finding[]
  /** What the service lists; null when it did not say. */
  readonly universe: PlanUniverse | null
}

async function checkService(config: Config, logger: Logger): Promise<ServiceFindings> {
  const what = 'service'
  try {
    const client = openExchange(
      { ...config, exchange: { ...config.exchange, retry: { ...config.exchange.retry, attempts: 1 } } },
      logger,
    )
    try {
      const sentAt = Date.now()
      // The response of the RPI list does not depend on any category being there.
      const page = await client.rpiSymbols()
      const roundTripMs = page.receivedAt - sentAt
      // The service's clock is read somewhere in the middle of the round trip.
      const skewMs = Math.round(page.requestTime - (sentAt + roundTripMs / 2))
      const findings: Finding[] = [
        {
          what,
          verdict: 'ok',
          detail: `${config.exchange.baseUrl} responded in ${roundTripMs} ms with ${page.rows.length} RPI symbols`,
        },
        Math.abs(skewMs) <= maxSkewMs + roundTripMs / 2
          ? { what: 'clock', verdict: 'ok', detail: `within ${Math.abs(skewMs)} ms of the service's` }
          : {
              what: 'clock',
              verdict: 'warning',
              detail: `${Math.abs(skewMs)} ms ${skewMs > 0 ? 'behind' : 'ahead of'} the service's; synchronise this machine's clock (NTP)`,
            },
      ]
      const universe = await readUniverse(client, AbortSignal.timeout(listWithinMs), (error) => {
        findings.push({ what: 'categories', verdict: 'warning', detail: oneLine(error) })
      })
      return { findings, universe }
    } finally {
      client.close()
    }
  } catch (error) {
    return { findings: [{ what, verdict: 'failure', detail: oneLine(error) }], universe: null }
  }
}

async function checkDatabase(config: Config, logger: Logger): Promise<Finding[]> {
  const what = 'database'
  try {
    const store = await openStore(config, logger)
    try {
      return [...(await describeDatabase(store.database, store.isEmbedded)), await checkReader(config, store.readUrl)]
    } finally {
      await store.close()
    }
  } catch (error) {
    return [{ what, verdict: 'failure', detail: oneLine(error) }]
  }
}

const meaningOf = {
  'timescale-community': 'hypertables, columnstore, continuous aggregates and retention policies',
  'timescale-apache': 'hypertables; no columnstore and no continuous aggregates: rollups are plain views',
  postgresql:
    'plain tables; rollups are plain views. Fine for months of some instruments; install TimescaleDB for more',
} as const

async function describeDatabase(database: RecorderDatabase, isEmbedded: boolean): Promise<Finding[]> {
  const server = await detectServer(database.db)
  const timescale = server.timescaleVersion === undefined ? '' : `, TimescaleDB ${server.timescaleVersion}`
  const name = `PostgreSQL ${server.serverVersion}${timescale}${isEmbedded ? ' (embedded)' : ''}`
  const pending = await pendingMigrations(database)
  return [
    { what: 'database', verdict: 'ok', detail: `${name}: ${meaningOf[server.kind]}` },
    pending.length === 0
      ? { what: 'schema', verdict: 'ok', detail: 'up to date' }
      : {
          what: 'schema',
          verdict: 'warning',
          detail: `${pending.length} migrations are pending; "start" applies them, or run "market-recorder migrate"`,
        },
  ]
}

/** Whether the login that people's queries run as could do more than read. */
async function checkReader(config: Config, readUrl: string): Promise<Finding> {
  const what = 'reader'
  const database = openDatabase({ url: readUrl, poolSize: 1, isReadOnly: true })
  try {
    const rights = await rightsBeyondReading(database.db)
    if (rights.length === 0) {
      return { what, verdict: 'ok', detail: 'query, export and the page use a login that can only read' }
    }
    const isOwn = config.database.url !== undefined && config.database.readUrl === undefined
    const todo = isOwn
      ? 'create a login in market_reader for them and give it in DATABASE_READ_URL'
      : 'revoke it as a superuser, or as the owner of the database'
    return {
      what,
      verdict: 'warning',
      detail: `query, export and the page use a login that ${rights.join(', ')}; ${todo}`,
    }
  } catch (error) {
    return { what, verdict: 'failure', detail: describeDatabaseError(error) }
  } finally {
    await database.close()
  }
}

async function checkDisk(config: Config): Promise<Finding> {
  const what = 'disk'
  const folder = resolve(config.database.dataDir)
  const { bavail, bsize } = await statfs(folder).catch(() => statfs(dirname(folder)))
  const freeBytes = bavail * bsize
  const detail = `${(freeBytes / 1e9).toFixed(1)} GB free at ${folder}`
  if (freeBytes >= minFreeBytes) return { what, verdict: 'ok', detail }
  return { what, verdict: 'warning', detail: `${detail}; make room or move database.dataDir` }
}

function oneLine(error: unknown): string {
  return messageOf(error).replaceAll(/\s*\n\s*/g, ' ')
}
