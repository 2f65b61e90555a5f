import { basicAuth } from 'hono/basic-auth'
import type { MiddlewareHandler } from 'hono'
import { ConfigError } from '../config/configError.js'
import type { Config } from '../config/resolve.js'
import { isLoopback } from '../runtime/process.js'

/** Name that goes with the password of the page. Programs that scrape it give this one. */
export const pageUser = 'recorder'

/** Throws a `ConfigError` if anybody on the network could open the page without a password. */
export function requirePassword({ host, password }: Pick<Config['serve'], 'host' | 'password'>): void {
  if (password !== undefined || isLoopback(host)) return
  throw new ConfigError([
    `the page would listen on ${host} without a password; set SERVE_PASSWORD or SERVE_PASSWORD_FILE, or serve.host to 127.0.0.1`,
  ])
}

/**
 * Requires the password for every path but /healthz. Monitors of processes have no password, and that path tells no more
 * than a connection does.
 */
export function passwordGuard(password: string): MiddlewareHandler {
  const invalidUserMessage = { error: `the password is needed, and the name ${pageUser}` }
  const guard = basicAuth({ username: pageUser, password, realm: 'market-recorder', invalidUserMessage })
  return async (context, next) => (context.req.path === '/healthz' ? next() : guard(context, next))
}
