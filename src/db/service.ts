import { type Kysely, sql } from 'kysely'
import { isLoopback, withoutBrackets } from '../runtime/host.js'
import type { TimeMs } from '../market/values.js'
import type { Database } from './schema.js'

/** What the database holds besides what is about to be recorded into it. */
export interface OtherService {
  readonly baseUrl: string
  readonly notedAt: TimeMs
  /** Whether the new address is of this machine: a simulator, which may be on any port. */
  readonly isLoopback: boolean
}

/**
 * Notes the service whose data the database is about to hold. Resolves to the one that it holds already where that is of
 * another host, and null where nothing is mixed: the same host, two simulators, or nothing recorded yet. What is noted
 * stays, unless the new one is accepted in its place.
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

/** With its port, where that is not the usual one. */
function hostOf(url: string): string {
  return new URL(url).host
}

function isOwnHost(url: string): boolean {
  return isLoopback(withoutBrackets(new URL(url).hostname))
}
