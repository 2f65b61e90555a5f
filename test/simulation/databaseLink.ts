import pg from 'pg'
import type { Done } from './clientPatch.js'
import type { Received } from './leaseKnowledge.js'
import type { RealClient } from './realClient.js'
import type { WhenAwake } from './virtualTime.js'

/** How the way between one machine and its database is at the moment. */
export interface DatabaseLink {
  /** `refused`: no server is there. `silent`: nothing gets through, without an error. */
  state: 'up' | 'refused' | 'silent'
  /** The longest time of a statement on its way and in the server, in milliseconds. */
  slowMs: number
  /** The SQLSTATE with which the server refuses to store anything; undefined if it stores. */
  refusal: string | undefined
}

export interface LinkOptions {
  readonly link: DatabaseLink
  readonly random: () => number
  readonly isDead: () => boolean
  readonly whenAwake: WhenAwake
  /** Called with each result that comes through. */
  readonly onReceived: (received: Received) => void
}

/** A session as the recorder sees it, with the real one behind it. */
export interface Session {
  readonly client: pg.Client
  readonly options: LinkOptions
  real: RealClient | undefined
  pid: number
  isOver: boolean
  statementTimeoutMs: number
  isInTransaction: boolean
  /** The time that the server was last set to. */
  toldMs: number
  /** A statement that goes to the server together with the next one. */
  ahead: string | undefined
  silenceMs: number | undefined
  onSilence: (() => void) | undefined
  /** Statements that were sent and have no result yet, in their order. */
  readonly sent: Statement[]
}

export interface Statement {
  readonly text: string
  readonly values?: unknown
  readonly run: () => Promise<unknown>
  readonly done: Done
  isOver: boolean
  stopTimers: (() => void)[]
}

/** Matches statements that store market data. */
const storesRows = /\b(?:insert into|update|delete from)\s+market\.|\brecorder\.store_fills\b/i

/** The error of a server that stores nothing at the moment; undefined if it does what it is asked for. */
export function refusalOf({ refusal: code }: DatabaseLink, text: string): Error | undefined {
  if (code === undefined || !storesRows.test(text)) return undefined
  const error = new pg.DatabaseError(`not as the recorder knows it: ${code}`, 0, 'error')
  return Object.assign(error, { code, severity: 'ERROR' })
}
