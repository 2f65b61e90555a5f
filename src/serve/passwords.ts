import { createHmac, randomBytes } from 'node:crypto'
import pLimit from 'p-limit'
import type { Clock } from '../runtime/clock.js'

export interface Credentials {
  readonly username: string
  readonly password: string
}

export type Verdict = 'right' | 'wrong' | 'busy'

/** Resolves to true if a password belongs to a bcrypt hash. Takes 0.1 s to several seconds of processor time. */
export type Compare = (password: string, hash: string) => Promise<boolean>

/** Limits of checks that run or wait, in total and per address. Guessing from one address leaves room for others. */
const maxWaiting = 8
const maxWaitingOfOne = 2
const maxKnown = 100
/** Pause after a wrong password, milliseconds. Four guesses a second take little processor time. */
const restAfterWrongMs = 250

/**
 * Checks credentials, one after the other. Those found right are known from then on without a check, by a digest that nobody
 * can try passwords on: its key is in this process alone.
 */
export class Passwords {
  readonly #compare: Compare
  readonly #clock: Clock
  readonly #key = randomBytes(32)
  /** Oldest use first. */
  readonly #known = new Set<string>()
  readonly #checking = new Map<string, Promise<Verdict>>()
  readonly #waitingOf = new Map<string, number>()
  readonly #oneAtATime = pLimit(1)

  constructor(compare: Compare, clock: Clock) {
    this.#compare = compare
    this.#clock = clock
  }

  /** @param address where it is asked from */
  async check(users: ReadonlyMap<string, string>, credentials: Credentials, address: string): Promise<Verdict> {
    const { username, password } = credentials
    const ownHash = users.get(username)
    // The hash is part of it: with another one in the file the password is checked anew.
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
