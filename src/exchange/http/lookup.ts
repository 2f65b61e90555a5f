import dns from 'node:dns'
import type { LookupFunction } from 'node:net'
import { callbackify } from 'node:util'
import type { Clock } from '../../runtime/clock.js'

/** How long the addresses of a host are used without another look-up. */
const freshMs = 30_000
/** Longest wait for the resolver. After it the last known addresses are used, if there are any. */
const maxWaitMs = 5_000
/** Error code that says that the resolver does not respond at the moment. */
const silentCode = 'EAI_AGAIN'

type ResolveHost = (host: string) => Promise<readonly dns.LookupAddress[]>

interface Known {
  readonly addresses: readonly dns.LookupAddress[]
  readonly atMs: number
}

const resolveByTheSystem: ResolveHost = (host) => dns.promises.lookup(host, { all: true })

type AddressFamily = 4 | 6

interface LookupOptions {
  /** Returns only addresses of this family. Default: both. */
  readonly family?: AddressFamily
  readonly resolve?: ResolveHost
}

export interface HostLookup {
  readonly lookup: LookupFunction
  /** Notes the family of a connection that was made. Its addresses come first from then on. */
  prefer(family: AddressFamily): void
}

/**
 * Looks up host names for connections. All that wait for a host share one look-up. A look-up holds one of the process's
 * few threads for as long as the resolver is silent.
 */
export function createLookup(clock: Clock, { family, resolve = resolveByTheSystem }: LookupOptions = {}): HostLookup {
  let preferred = family
  const known = new Map<string, Known>()
  const running = new Map<string, Promise<Known>>()

  function start(host: string): Promise<Known> {
    const looking = resolve(host)
      .then((all) => {
        const addresses = all.filter((one) => family === undefined || one.family === family)
        if (addresses.length === 0 && all.length > 0) throw withoutFamily(host, family)
        const found = { addresses, atMs: clock.monotonicMs() }
        known.set(host, found)
        return found
      })
      .finally(() => running.delete(host))
    running.set(host, looking)
    return looking
  }

  async function addressesOf(host: string): Promise<readonly dns.LookupAddress[]> {
    const last = known.get(host)
    if (last !== undefined && clock.monotonicMs() - last.atMs < freshMs) return last.addresses
    const limit = new AbortController()
    try {
      const found = await Promise.race([running.get(host) ?? start(host), silence(host, limit.signal)])
      return found.addresses
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (last !== undefined && code === silentCode) return last.addresses
      throw error
    } finally {
      limit.abort()
    }
  }

  async function silence(host: string, signal: AbortSignal): Promise<never> {
    await clock.sleep(maxWaitMs, signal)
    const message = `the resolver has not responded for ${maxWaitMs / 1000} s`
    throw Object.assign(new Error(message), { code: silentCode, hostname: host })
  }

  const lookUp = callbackify(addressesOf)
  const lookup: LookupFunction = (host, { all }, done) =>
    lookUp(host, (error, addresses) => {
      if (error !== null) return done(error, '')
      // Without a known network behind it, an address of the other family costs a time-out before each connection.
      const sorted = addresses.toSorted((a, b) => Number(b.family === preferred) - Number(a.family === preferred))
      if (all === true) return done(null, sorted)
      const [first] = sorted
      done(null, first?.address ?? '', first?.family)
    })
  return { lookup, prefer: (connected) => (preferred = connected) }
}

function withoutFamily(host: string, family: AddressFamily | undefined): Error {
  const message = `${host} has no IPv${family} address, and exchange.localAddress is one; set it to one of the other family`
  return Object.assign(new Error(message), { code: 'ERR_ADDRESS_FAMILY' })
}
