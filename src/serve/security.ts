import { isIP } from 'node:net'
import type { MiddlewareHandler } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import type { Config } from '../config/resolve.js'
import { isLoopback, withoutBrackets } from '../runtime/process.js'
import { basicAuth } from 'hono/basic-auth'
import { ConfigError } from '../config/configError.js'

/** Returns what keeps other web sites from using the server through a visitor's browser. */
export function guardsAgainstSites(options: Pick<Config['serve'], 'host' | 'allowedHosts'>): MiddlewareHandler[] {
  return [ownNamesOnly(options), ownSiteOnly, securityHeaders()]
}

/** Sets headers so that the page loads nothing from other sites, runs no inline code and cannot be framed. */
function securityHeaders(): MiddlewareHandler {
  const self = ["'self'"]
  const none = ["'none'"]
  return secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: none,
      scriptSrc: self,
      styleSrc: self,
      imgSrc: self,
      connectSrc: self,
      baseUri: none,
      formAction: none,
      frameAncestors: none,
    },
    // The server may use plain HTTP. A promise of HTTPS would also bind the next server on this host.
    strictTransportSecurity: false,
    referrerPolicy: 'no-referrer',
    xFrameOptions: 'DENY',
  })
}

/**
 * On loopback, and where names are configured, accepts only requests to one of this server's own names.
 * Otherwise a web site could point its own name at 127.0.0.1 and read the page through the visitor's browser.
 */
function ownNamesOnly({ host, allowedHosts }: Pick<Config['serve'], 'host' | 'allowedHosts'>): MiddlewareHandler {
  const allowed = new Set(allowedHosts.map((name) => name.toLowerCase()))
  const isChecked = isLoopback(host) || allowed.size > 0
  // Other hosts also accept IP addresses, because an attack by DNS needs a name.
  const isOwn = (name: string) => isLoopback(name) || allowed.has(name) || (!isLoopback(host) && isIP(name) !== 0)
  return async (context, next) => {
    if (isChecked) {
      const name = hostName(context.req.header('host') ?? '')
      if (!isOwn(name)) return context.json({ error: `${name || 'no host'}: not a name of this server` }, 403)
    }
    await next()
    return undefined
  }
}

/** Refuses requests that a page of another site makes through the visitor's browser. Links to the page are allowed. */
const ownSiteOnly: MiddlewareHandler = async (context, next) => {
  const header = (name: string) => context.req.header(name)
  if (header('sec-fetch-site') === 'cross-site') {
    const isLink = header('sec-fetch-mode') === 'navigate' && header('sec-fetch-dest') === 'document'
    if (!isLink || context.req.path.startsWith('/api'))
      return context.json({ error: 'requested by a page of another site' }, 403)
  }
  await next()
  return undefined
}

function hostName(header: string): string {
  return withoutBrackets(header.replace(/:\d+$/, '')).toLowerCase().slice(0, 255)
}

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
