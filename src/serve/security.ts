import { isIP } from 'node:net'
import type { MiddlewareHandler } from 'hono'
import { secureHeaders } from 'hono/secure-headers'
import type { Config } from '../config/resolve.js'
import { isLoopback, withoutBrackets } from '../runtime/host.js'

/** The page loads nothing from elsewhere, runs no inline code, and cannot be framed. */
export function securityHeaders(): MiddlewareHandler {
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
    // Plain HTTP on one's own machine: a promise of HTTPS would only get in the way of whatever serves there next.
    strictTransportSecurity: false,
    referrerPolicy: 'no-referrer',
    xFrameOptions: 'DENY',
  })
}

/**
 * On loopback, and where names are configured, responds only to requests that call this machine by one of its own names: a web site that points a name of its own
 * at 127.0.0.1 would otherwise read the page through the visitor's browser.
 */
export function ownNamesOnly({
  host,
  allowedHosts,
}: Pick<Config['serve'], 'host' | 'allowedHosts'>): MiddlewareHandler {
  const allowed = new Set(allowedHosts.map((name) => name.toLowerCase()))
  const isChecked = isLoopback(host) || allowed.size > 0
  // What has no name cannot be pointed at it: an address is as good as its reader's way here.
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

/** Refuses what a page of another site asks for through the visitor's browser; following a link to the page is no such thing. */
export function ownSiteOnly(): MiddlewareHandler {
  return async (context, next) => {
    const header = (name: string) => context.req.header(name)
    if (header('sec-fetch-site') === 'cross-site') {
      const isLink = header('sec-fetch-mode') === 'navigate' && header('sec-fetch-dest') === 'document'
      if (!isLink || context.req.path.startsWith('/api'))
        return context.json({ error: 'requested by a page of another site' }, 403)
    }
    await next()
    return undefined
  }
}

function hostName(header: string): string {
  return withoutBrackets(header.replace(/:\d+$/, '')).toLowerCase().slice(0, 255)
}
