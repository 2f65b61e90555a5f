import pg from 'pg'
import { answerForClients, type ClientTarget, type Done, visible } from './clientPatch.js'
import { type LinkOptions, refusalOf, type Session, type Statement } from './databaseLink.js'
import { begin, LockWatch, type Running } from './lockWatch.js'
import { prepared, RealClient, type RealServer, searchPath } from './realClient.js'
import type { Happening, VirtualTime } from './virtualTime.js'

const beginsTransaction = /^\s*(?:begin|start transaction)\b/i
const endsTransaction = /^\s*(?:commit|rollback(?! to))\b/i
/** Matches statements that read the server's time, or leave it to the default of a column. */
const readsTime = /\bnow\(\)|insert into\W*recorder\W+(?!coverage|lock|lease)/i

/**
 * The database of a world: the real server, asked one statement at a time while time stands still. A session that waits
 * for another one's lock waits in simulated time. The way there can be cut, refused or slow, and sessions severed.
 */
export class SimulatedDatabase implements ClientTarget {
  readonly #time: VirtualTime
  readonly #server: RealServer
  readonly #admin: RealClient
  readonly #links = new Map<string, LinkOptions>()
  readonly #sessions = new Set<Session>()
  readonly #locks: LockWatch
  readonly #epochMs: number
  statements = 0

  constructor(time: VirtualTime, epochMs: number, server: RealServer, admin: RealClient) {
    this.#time = time
    this.#epochMs = epochMs
    this.#server = server
    this.#admin = admin
    this.#locks = new LockWatch(admin)
    answerForClients(this)
  }

  /** Sends connections to this host name over this link. */
  addMachine(host: string, options: LinkOptions): void {
    this.#links.set(host, options)
  }

  async connect(client: pg.Client): Promise<void> {
    const { host, connectionParameters } = visible(client)
    const options = this.#links.get(host)
    if (options === undefined) throw new Error(`no machine is called ${host}`)
    const session: Session = {
      client,
      options,
      real: undefined,
      pid: 0,
      isOver: false,
      statementTimeoutMs: Number(connectionParameters.statement_timeout || 0),
      isInTransaction: false,
      toldMs: -1,
      ahead: undefined,
      silenceMs: undefined,
      onSilence: undefined,
      sent: [],
    }
    sessionOf.set(client, session)
    const own = visible(client)
    own.connection = {
      ref: () => undefined,
      unref: () => undefined,
      stream: {
        destroy: (error?: Error) => this.drop(session, error?.message ?? 'Connection terminated'),
        setTimeout: (ms, onSilence) => Object.assign(session, { silenceMs: ms, onSilence }),
      },
    }
    const timeoutMs = own['_connectionTimeoutMillis']
    return new Promise((resolve, reject) => {
      let stopTimeout = (): void => undefined
      let isSettled = false
      const fail = (error: Error) => {
        if (isSettled || options.isDead()) return
        isSettled = true
        session.isOver = true
        reject(error)
      }
      session.sent.push({
        text: 'connect',
        run: async () => undefined,
        done: (e) => e && fail(e),
        isOver: false,
        stopTimers: [],
      })
      if (timeoutMs > 0) stopTimeout = this.#on(options, timeoutMs, () => fail(new Error('timeout expired')))
      this.#on(options, 0.2 + options.random(), async () => {
        if (options.isDead() || session.isOver || options.link.state === 'silent') return
        stopTimeout()
        if (options.link.state === 'refused')
          return fail(Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }))
        try {
          await this.#open(session)
        } catch (error) {
          return fail(error as Error)
        }
        isSettled = true
        session.sent.length = 0
        this.#sessions.add(session)
        own['_connected'] = true
        resolve()
      })
    })
  }

  /** Does something on a machine, not before the machine is awake. */
  #on({ whenAwake }: LinkOptions, ms: number, happen: Happening): () => void {
    return this.#time.after(ms, () => whenAwake(happen))
  }

  query(client: pg.Client, config: unknown, values: unknown, done: Done): void {
    const session = sessionOf.get(client)
    const own = visible(client)
    if (session === undefined || session.isOver || own['_ending']) {
      const error = new Error('Client has encountered a connection error and is not queryable')
      process.nextTick(() => session?.options.isDead() === true || done(error))
      return
    }
    const text = typeof config === 'string' ? config : (config as { text: string }).text
    const statement: Statement = {
      text,
      values,
      done,
      isOver: false,
      stopTimers: [],
      run: () => {
        const { ahead } = session
        session.ahead = undefined
        return (session.real as RealClient).queryBehind(ahead, prepared(config, values))
      },
    }
    const timeoutMs = Number(own.connectionParameters.query_timeout || 0)
    if (timeoutMs > 0)
      statement.stopTimers.push(
        this.#on(session.options, timeoutMs, () => this.#finish(session, statement, new Error('Query read timeout'))),
      )
    if (session.silenceMs !== undefined)
      statement.stopTimers.push(
        this.#on(session.options, session.silenceMs, () => {
          if (!session.isOver && !statement.isOver && !session.options.isDead()) session.onSilence?.()
        }),
      )
    session.sent.push(statement)
    if (session.sent.length === 1) this.#send(session, statement)
  }

  /** Says good-bye. */
  async end(client: pg.Client): Promise<void> {
    const session = sessionOf.get(client)
    visible(client)['_ending'] = true
    if (session === undefined || session.isOver) return
    return new Promise((resolve) => {
      const leave = async (): Promise<void> => {
        if (session.options.isDead()) return
        if (session.isOver) return resolve()
        // The server never gets it.
        if (session.options.link.state === 'silent') return void this.#time.after(200, leave)
        session.isOver = true
        await this.#close(session)
        client.emit('end')
        resolve()
      }
      this.#time.after(0.2, leave)
    })
  }

  /** Breaks the connection. What is under way is lost, and nobody knows if it was done. */
  drop(session: Session, message: string): void {
    if (session.isOver) return
    session.isOver = true
    const own = visible(session.client)
    own['_queryable'] = false
    own['_ending'] = true
    this.#on(session.options, 0, () => {
      this.#time.after(0, () => this.#closeWhenReached(session))
      if (session.options.isDead()) return
      const error = new Error(message)
      for (const statement of session.sent.splice(0)) this.#finish(session, statement, error)
      // Before the connection stands, `connect` rejects instead.
      if (own['_connected']) session.client.emit('error', error)
      session.client.emit('end')
    })
  }

  /** A server that cannot be reached does not learn that a session is over, and keeps what it holds. */
  async #closeWhenReached(session: Session): Promise<void> {
    if (session.options.link.state === 'silent' && !session.options.isDead())
      return void this.#time.after(200, () => this.#closeWhenReached(session))
    await this.#close(session)
  }

  /** Breaks the sessions of a machine, or of all. */
  sever(which: (options: LinkOptions) => boolean, message = 'Connection terminated unexpectedly'): void {
    for (const session of this.#sessions) if (which(session.options)) this.drop(session, message)
  }

  /** Ends the sessions of a machine that is gone, as the server does. */
  async bury(which: (options: LinkOptions) => boolean): Promise<void> {
    for (const session of Array.from(this.#sessions)) {
      if (!which(session.options)) continue
      session.isOver = true
      await this.#close(session)
    }
  }

  async #open(session: Session): Promise<void> {
    const { connectionParameters: given, _types: types } = visible(session.client)
    const login = {
      ...this.#server,
      database: given.database,
      application_name: given.application_name,
      options: `${searchPath} -c simulated.ms=${Math.floor(this.#epochMs + this.#time.nowMs)} ${given.options ?? ''}`,
      types,
      pipeline: true,
    }
    const client = new RealClient(login)
    client.on('error', () => undefined)
    await client.connect()
    session.real = client
    session.pid = (client as unknown as { readonly processID: number }).processID
  }

  /** Ends the real session, and waits until the server has let go of what it held. */
  async #close(session: Session): Promise<void> {
    this.#sessions.delete(session)
    const { real: client, pid } = session
    if (client === undefined) return
    session.real = undefined
    await this.#admin.query('select pg_terminate_backend($1)', [pid])
    await client.end().catch(() => undefined)
    // The query is repeated at once: the server itself would look once in a tenth of a second.
    while ((await this.#admin.query('select from pg_stat_activity where pid = $1', [pid])).rows.length > 0);
    await this.#released()
  }

  #send(session: Session, statement: Statement): void {
    const { random, link } = session.options
    const thereMs = 0.05 + random() * 0.5 + random() * link.slowMs
    const { statementTimeoutMs } = session
    const execute = async (): Promise<void> => {
      if (session.options.isDead() || session.isOver || statement.isOver) return
      if (link.state === 'silent') {
        // It is sent again until it gets through.
        this.#time.after(200, execute)
        return
      }
      if (statementTimeoutMs > 0 && thereMs > statementTimeoutMs) {
        const error = Object.assign(new pg.DatabaseError('canceling statement due to statement timeout', 0, 'error'), {
          code: '57014',
          severity: 'ERROR',
        })
        return this.#finish(session, statement, error)
      }
      await this.#execute(session, statement)
    }
    this.#time.after(Math.min(thereMs, statementTimeoutMs > 0 ? statementTimeoutMs + 1 : Infinity), execute)
  }

  async #execute(session: Session, statement: Statement): Promise<void> {
    // The server has ended it meanwhile.
    if (session.real === undefined) return this.drop(session, 'Connection terminated unexpectedly')
    this.statements++
    if (beginsTransaction.test(statement.text)) {
      session.isInTransaction = true
      session.ahead = `${this.#timeIs()}; ${statement.text}`
      return this.#deliver({ session, statement, outcome: { error: null, value: begun } })
    }
    const refusal = refusalOf(session.options.link, statement.text)
    if (refusal !== undefined) return this.#deliver({ session, statement, outcome: { error: refusal } })
    this.#tellTime(session, statement)
    const running = begin(session, statement)
    if (await this.#locks.isOver(running)) this.#conclude(running)
    else if (session.statementTimeoutMs > 0)
      running.stopTimeout = this.#time.after(session.statementTimeoutMs, () => this.#cancel(running))
    await this.#released()
  }

  async #cancel({ session, settled }: Running): Promise<void> {
    await this.#admin.query('select pg_cancel_backend($1)', [session.pid])
    // The server ends the session in its own time, which must not be the world's.
    await settled
    await this.#released()
  }

  /** Continues the sessions whose lock has become free. */
  async #released(): Promise<void> {
    for (const running of await this.#locks.released()) this.#conclude(running)
  }

  #conclude(running: Running): void {
    running.stopTimeout?.()
    this.#deliver(running)
  }

  /**
   * Sets the server's clock to the world's. In a transaction it stays at the beginning of the transaction. The next
   * statement takes the setting along: one round trip instead of two.
   */
  #tellTime(session: Session, { text }: Statement): void {
    if (endsTransaction.test(text)) {
      session.isInTransaction = false
      session.toldMs = -1
    } else if (!session.isInTransaction && session.toldMs !== this.#time.nowMs && readsTime.test(text)) {
      session.toldMs = this.#time.nowMs
      session.ahead = this.#timeIs()
    }
  }

  #timeIs(): string {
    return `set simulated.ms = ${Math.floor(this.#epochMs + this.#time.nowMs)}`
  }

  #deliver({ session, statement, outcome = { error: null } }: Omit<Running, 'settled'>): void {
    const { error, value } = outcome
    const { random, link, isDead } = session.options
    const deliver = (): void => {
      if (isDead() || session.isOver) return
      if (link.state === 'silent') return void this.#on(session.options, 200, deliver)
      this.#finish(session, statement, error, value)
    }
    this.#on(session.options, 0.05 + random() * 0.3 + random() * link.slowMs * 0.2, deliver)
  }

  #finish(session: Session, statement: Statement, error: Error | null, value?: unknown): void {
    if (statement.isOver || session.options.isDead()) return
    statement.isOver = true
    for (const stop of statement.stopTimers) stop()
    if (error === null) session.options.onReceived({ statement, value })
    const place = session.sent.indexOf(statement)
    if (place >= 0) session.sent.splice(place, 1)
    const next = session.sent[0]
    if (place === 0 && next !== undefined && !session.isOver) this.#send(session, next)
    statement.done(error, value)
  }
}

/** The server's result for the beginning of a transaction. */
const begun = { command: 'BEGIN', rowCount: null, oid: 0, rows: [], fields: [] }

const sessionOf = new WeakMap<pg.Client, Session>()
