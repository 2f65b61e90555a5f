import pLimit from 'p-limit'
import type { Server } from 'node:http'
import { Server as TlsServer } from 'node:tls'
import type { HttpBindings } from '@hono/node-server'
import type { MiddlewareHandler } from 'hono'
import { auth as credentialsOf } from 'hono/utils/basic-auth'
import type { Config } from '../config/resolve.js'
import type { Clock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { isLoopback } from '../runtime/process.js'
import { readWebConfig, type WebConfig } from './webConfig.js'
import { messageOf } from '../runtime/text.js'
import { createHmac, randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'

interface Protection {
  /** Options of a server with TLS; null for a server without TLS. */
  readonly tlsOptions: { cert: string; key: string; handshakeTimeout: number } | null
  readonly authenticate: MiddlewareHandler
  /** Makes the server follow changes of the file. */
  follow(server: Server, onUsersChanged: () => void): void
  close(): void
}

const lookEveryMs = 1_000
const handshakeTimeout = 10_000

/** Reads TLS and passwords from the configured file; null without one. Rejects with a `ConfigError` if it is wrong. */
export async function openProtection(
  { webConfigFile: file, host }: Config['serve'],
  logger: Logger,
  clock: Clock,
): Promise<Protection | null> {
  if (file === undefined) {
    if (!isLoopback(host))
      logger.warn(`the page needs no password and can be reached on ${host}; set serve.webConfigFile to ask for one`)
    return null
  }
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
        if (isDeepStrictEqual(next, current)) return
        refuseLess(file, current, next)
        if (next.tls !== null && server instanceof TlsServer) server.setSecureContext(next.tls)
        const isSame = isDeepStrictEqual(next.users, current.users)
        current = next
        logger.info(`${file} has changed: its certificate and users are used from now on`)
        if (!isSame) onUsersChanged()
      })
    },
    close: () => stopped.abort(),
  }

  /** Calls `look` regularly. A file may be half written, so only a problem that occurs twice is reported, once. */
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
 * Requires name and password for every path but /healthz, if there are users. Monitors of processes have no passwords,
 * and that path tells no more than a connection does.
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

/** Loads bcrypt with the first password. It lets other work run after each tenth of a second. */
async function compareLater(password: string, hash: string): Promise<boolean> {
  const { compare } = await import('bcryptjs')
  return compare(password, hash)
}

interface Credentials {
  readonly username: string
  readonly password: string
}

type Verdict = 'right' | 'wrong' | 'busy'

/** Resolves to true if a password belongs to a bcrypt hash. Takes 0.1 s to several seconds of processor time. */
type Compare = (password: string, hash: string) => Promise<boolean>

/** Limits of checks that run or wait, in total and per address. Guessing from one address leaves room for others. */
const maxWaiting = 8
const maxWaitingOfOne = 2
const maxKnown = 100
/** Pause after a wrong password, milliseconds. Four guesses a second take little processor time. */
const restAfterWrongMs = 250

/**
 * Checks credentials one at a time. Correct ones are remembered by a keyed digest. Its key exists only in this
 * process, so nobody can try passwords on the digest.
 */
export class Passwords {
  readonly #compare: Compare
  readonly #clock: Clock
  readonly #key = randomBytes(32)
  /** Digests of known credentials, the longest unused first. */
  readonly #known = new Set<string>()
  readonly #checking = new Map<string, Promise<Verdict>>()
  readonly #waitingOf = new Map<string, number>()
  readonly #oneAtATime = pLimit(1)

  constructor(compare: Compare, clock: Clock) {
    this.#compare = compare
    this.#clock = clock
  }

  /** @param address IP address of the client */
  async check(users: ReadonlyMap<string, string>, credentials: Credentials, address: string): Promise<Verdict> {
    const { username, password } = credentials
    const ownHash = users.get(username)
    // The digest includes the hash, so that a new hash in the file causes a new check.
    const digest = createHmac('sha256', this.#key)
      .update(JSON.stringify([username, password, ownHash ?? null]))
      .digest('base64')
    if (this.#known.delete(digest)) {
      this.#known.add(digest)
      return 'right'
    }
    const checking = this.#checking.get(digest)
    if (checking !== undefined) return checking
    const ofOne = this.#waitingOf.get(address) ?? 0
    if (this.#checking.size >= maxWaiting || ofOne >= maxWaitingOfOne) return 'busy'
    this.#waitingOf.set(address, ofOne + 1)
    const verdict = this.#oneAtATime(async (): Promise<Verdict> => {
      // An unknown name takes as long as a known one, so that nobody can tell them apart.
      const [anyHash = ''] = users.values()
      const matches = await this.#compare(password, ownHash ?? anyHash)
      if (matches && ownHash !== undefined) {
        this.#remember(digest)
        return 'right'
      }
      await this.#clock.sleep(restAfterWrongMs)
      return 'wrong'
    })
    this.#checking.set(digest, verdict)
    try {
      return await verdict
    } finally {
      this.#checking.delete(digest)
      const left = (this.#waitingOf.get(address) ?? 1) - 1
      if (left === 0) this.#waitingOf.delete(address)
      else this.#waitingOf.set(address, left)
    }
  }

  #remember(digest: string): void {
    this.#known.add(digest)
    if (this.#known.size <= maxKnown) return
    const [oldest] = this.#known
    if (oldest !== undefined) this.#known.delete(oldest)
  }
}
