import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import type { HttpBindings } from '@hono/node-server'
import type { MiddlewareHandler } from 'hono'
import { auth as credentialsOf } from 'hono/utils/basic-auth'
import type { Config } from '../config/resolve.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { Passwords } from './passwords.js'
import { isLoopback } from '../runtime/host.js'
import { readWebConfig, type WebConfig } from './webConfig.js'
import { messageOf } from '../runtime/messageOf.js'

export interface Protection {
  /** Options of a server with TLS; null where HTTP is served. */
  readonly tlsOptions: { cert: string; key: string; handshakeTimeout: number } | null
  readonly authenticate: MiddlewareHandler
  /** From now on the server uses what the file says, whenever that changes. */
  follow(server: Server, onUsersChanged: () => void): void
  close(): void
}

const lookEveryMs = 1_000
const handshakeTimeout = 10_000

/** TLS and passwords by the file's word; null when none is named. Rejects with a `ConfigError` when it cannot be used. */
export async function openProtection(
  { webConfigFile: file, host }: Config['serve'],
  logger: Logger,
  clock: Clock,
): Promise<Protection | null> {
  if (file === undefined) return null
  let current = await readWebConfig(file)
  if (current.tls === null && !isLoopback(host))
    logger.warn(`${file}: without tls_server_config passwords cross the network as plain text`)
  const stopped = new AbortController()
  const passwords = new Passwords(compareLater, clock)

  return {
    tlsOptions: current.tls === null ? null : { ...current.tls, handshakeTimeout },
    authenticate: authentication(() => current.users, passwords),
    follow(server, onUsersChanged) {
      void watchFile(async () => {
        const next = await readWebConfig(file)
        if (next.digest === current.digest) return
        refuseLess(file, current, next)
        if (next.tls !== null && server instanceof TlsServer) server.setSecureContext(next.tls)
        const isSame = JSON.stringify([...next.users]) === JSON.stringify([...current.users])
        current = next
        logger.info(`${file} has changed: its certificate and users are used from now on`)
        if (!isSame) onUsersChanged()
      })
    },
    close: () => stopped.abort(),
  }

  /** A file may be seen half written: what is wrong with it is told when it is still so at the next look, and once. */
  async function watchFile(look: () => Promise<void>): Promise<void> {
    let problem = { text: '', looks: 0 }
    while (!stopped.signal.aborted) {
      try {
        await clock.sleep(lookEveryMs, stopped.signal)
        await look()
        problem = { text: '', looks: 0 }
      } catch (error) {
        if (stopped.signal.aborted) return
        const text = messageOf(error)
        problem = { text, looks: text === problem.text ? problem.looks + 1 : 1 }
        if (problem.looks === 2) logger.error(`${text}; until then the page is protected as before`)
      }
    }
  }
}

/** Throws if a new configuration adds or removes TLS, or removes all users. Such a change needs a restart. */
function refuseLess(file: string, current: WebConfig, next: WebConfig): void {
  if ((current.tls === null) !== (next.tls === null)) {
    throw new Error(`${file}: whether there is tls_server_config is decided at the start; restart the recorder`)
  }
  if (current.users.size > 0 && next.users.size === 0) {
    throw new Error(`${file}: basic_auth_users is gone; give it again, or restart the recorder to go without`)
  }
}

/**
 * Requires name and password for every path but /healthz, if there are users.
 * That path tells no more than a connection does, and monitors of processes have no passwords.
 */
function authentication(users: () => ReadonlyMap<string, string>, passwords: Passwords): MiddlewareHandler {
  return async (context, next) => {
    if (users().size === 0 || context.req.path === '/healthz') return next()
    const credentials = credentialsOf(context.req.raw)
    const { incoming } = context.env as Partial<HttpBindings>
    const address = incoming?.socket.remoteAddress ?? ''
    const verdict = credentials === undefined ? 'wrong' : await passwords.check(users(), credentials, address)
    if (verdict === 'right') return next()
    if (verdict === 'busy') {
      return context.json({ error: 'too many passwords to check; try again in a few seconds' }, 429, {
        'Retry-After': '5',
      })
    }
    return context.json({ error: 'name and password are needed' }, 401, {
      'WWW-Authenticate': 'Basic realm="market-recorder", charset="UTF-8"',
    })
  }
}

/** Loaded with the first password. It lets other work run after each tenth of a second. */
async function compareLater(password: string, hash: string): Promise<boolean> {
  const { compare } = await import('bcryptjs')
  return compare(password, hash)
}
