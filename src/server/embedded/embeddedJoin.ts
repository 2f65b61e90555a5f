import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { withClient } from './embeddedClient.js'
import { embeddedPaths, hasUsers, readServerState, UserPlace } from './embeddedProcess.js'
import { logins } from './embeddedRoles.js'

export interface EmbeddedPostgres {
  /** Connection string of the owner of the database, with the password, on 127.0.0.1. Not a superuser. */
  readonly url: string
  /** The same for a login that reads the market and changes nothing. */
  readonly readUrl: string
  /**
   * Gives the server up. Resolves when it has shut down, or at once when other processes still use it: it ends with its last
   * user. Safe to call twice.
   */
  stop(): Promise<void>
}

/** Whether a server that says that it is ready takes us, its first start over. Does not reject. */
export type IsUsable = (urls: Pick<EmbeddedPostgres, 'url' | 'readUrl'>) => Promise<boolean>

const stopDeadlineMs = 60_000

/**
 * Joins the server that runs, if one does and another process holds it, without any of what a start prepares: a command
 * that asks one question is done in the time that this would take. Undefined where only a start can tell what to do.
 */
export async function joinRunning(
  dataDir: string,
  database: string,
  isUsable: IsUsable = hasLogins,
): Promise<EmbeddedPostgres | undefined> {
  const paths = embeddedPaths(dataDir)
  const [state, owner, reader] = await Promise.all([
    readServerState(dataDir),
    passwordIn(paths.password),
    passwordIn(paths.readerPassword),
  ])
  if (state?.status !== 'ready' || owner === '' || reader === '') return undefined
  const place = await placeBesideOthers(paths.users)
  if (place === undefined) return undefined
  const urlOf = (user: string, password: string) => serverUrl({ port: state.port, name: database, user, password })
  const [url, readUrl] = [urlOf(logins.owner, owner), urlOf(logins.reader, reader)]
  if (await isUsable({ url, readUrl })) {
    const again = await readServerState(dataDir)
    if (again?.pid === state.pid && again.status === 'ready') {
      return { url, readUrl, stop: () => leave(dataDir, place) }
    }
  }
  await leave(dataDir, place)
  return undefined
}

function passwordIn(file: string): Promise<string> {
  return readFile(file, 'utf8').then(
    (text) => text.trim(),
    () => '',
  )
}

/**
 * A place only where somebody else has one already: the server shuts down when it finds nobody, so it does not do so between
 * this look and our place right after it, as it may when the last user has just left.
 */
async function placeBesideOthers(users: string): Promise<UserPlace | undefined> {
  try {
    return hasUsers(users) ? await UserPlace.take(users) : undefined
  } catch {
    return undefined
  }
}

/** Whether the server's first start is over: its database and its logins are there. */
async function hasLogins({ url }: { readonly url: string }): Promise<boolean> {
  try {
    return await withClient({ connectionString: url, connectionTimeoutMillis: 5_000 }, async (client) => {
      const { rowCount } = await client.query('select from pg_roles where rolname = $1', [logins.reader])
      return rowCount === 1
    })
  } catch {
    // A start finds out why, and says it.
    return false
  }
}

/** Gives up a place; waits for the server's end if it was the last. */
export async function leave(dataDir: string, place: UserPlace): Promise<void> {
  place.release()
  if (!hasUsers(embeddedPaths(dataDir).users)) await waitUntilGone(dataDir)
}

async function waitUntilGone(dataDir: string): Promise<void> {
  const startedAt = performance.now()
  while ((await readServerState(dataDir)) !== undefined) {
    if (performance.now() - startedAt > stopDeadlineMs) {
      throw new Error(`the embedded PostgreSQL did not stop; see ${embeddedPaths(dataDir).log}`)
    }
    await sleep(20)
  }
}

export function serverUrl(to: { port: number; name: string; user: string; password: string }): string {
  return `postgresql://${to.user}:${to.password}@127.0.0.1:${to.port}/${to.name}`
}
