import { isIP } from 'node:net'
import type { MiddlewareHandler } from 'hono'
import { secureHeaders } from 'hono/secure-headers'

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

/** Whether an address is reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/**
 * On loopback, answers only requests that call this machine by one of its own names: a web site that points a name of its own
 * at 127.0.0.1 would otherwise read the page through the visitor's browser.
 */
export function ownNamesOnly(host: string): MiddlewareHandler {
  return async (context, next) => {
    if (isLoopback(host)) {
      const name = hostName(context.req.header('host') ?? '')
      if (!isLoopback(name)) return context.json({ error: `${name || 'no host'}: not a name of this server` }, 403)
    }
    await next()
    return undefined
  }
}

function hostName(header: string): string {
  return header.replace(/:\d+$/, '').replace(/^\[(.*)\]$/, '$1')
}
