import { type Kysely, sql } from 'kysely'
import { isLoopback, withoutBrackets } from '../runtime/host.js'
import type { TimeMs } from '../market/values.js'
import type { Database } from './schema.js'

/** The service whose data the database holds, when another service is about to be recorded into it. */
export interface OtherService {
  readonly baseUrl: string
  readonly notedAt: TimeMs
  /** True when the new address is on this machine. It is then a simulator, which may use any port. */
  readonly isLoopback: boolean
}

/**
 * Notes the service whose data the database is about to hold. Resolves to the noted service if it is of another host
 * and has recorded data. Resolves to null where nothing is mixed: the same host, two simulators, or nothing recorded
 * yet. With `accept` the new service replaces the noted one.
 */
export async function noteService(
  db: Kysely<Database>,
  baseUrl: string,
  { accept = false }: { readonly accept?: boolean } = {},
): Promise<OtherService | null> {
  await db
    .insertInto('recorder.service')
    .values({ base_url: baseUrl })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const stored = await db
    .selectFrom('recorder.service')
    .select(['base_url as baseUrl', 'noted_at as notedAt'])
    .executeTakeFirstOrThrow()
  const isNewLoopback = isOwnHost(baseUrl)
  if (hostOf(stored.baseUrl) === hostOf(baseUrl) || (isNewLoopback && isOwnHost(stored.baseUrl))) return null
  if (accept || !(await hasRecorded(db))) {
    await sql`update recorder.service set base_url = ${baseUrl}, noted_at = now()`.execute(db)
    return null
  }
  return { ...stored, isLoopback: isNewLoopback }
}

async function hasRecorded(db: Kysely<Database>): Promise<boolean> {
  const { rows } = await sql<{ found: boolean }>`
    select exists (select from market.instruments) or exists (select from market.fills)
      or exists (select from market.candles) or exists (select from market.tickers) as found`.execute(db)
  return rows[0]?.found === true
}

/** The host of a URL, with the port if it is not the default one. */
function hostOf(url: string): string {
  return new URL(url).host
}

function isOwnHost(url: string): boolean {
  return isLoopback(withoutBrackets(new URL(url).hostname))
}
