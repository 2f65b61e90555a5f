import { isIP } from 'node:net'

/** Returns true if a host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/** A host as sockets take it: URLs and headers have addresses of IPv6 in brackets. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}

/** A host as a URL has it. */
export function inUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
