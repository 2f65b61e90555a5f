import type { Socket } from 'node:net'
import buildConnector, { type Connect } from 'undici/lib/core/connect.js'
import Client, { type Handler } from 'undici/lib/dispatcher/client.js'

export interface ConnectionOptions {
  /** Where the service is: its path is not looked at. */
  readonly baseUrl: URL
  readonly maxConnections: number
  readonly localAddress?: string
  /** Names and values take turns. */
  readonly headers: readonly string[]
}

/** Is told what happens to a request; the last is `onEnd` or `onError`. */
export interface RequestHandler {
  /** The last byte of the request has left. */
  onSent(): void
  /** Not for informational responses. Names and values take turns. */
  onHead(status: number, headers: readonly Buffer[]): void
  onData(chunk: Buffer): void
  /** The response is whole. */
  onEnd(): void
  onError(error: Error): void
}

/**
 * Connections to one server, each with one request at a time. They are undici's; which of them a request takes is decided here, as
 * undici's pool always takes the first that is free, connected or not: the one that was used last is the least likely to be closed by
 * the other side just now, and those that are not needed end by themselves.
 */
export class Connections {
  readonly #options: ConnectionOptions
  readonly #headers: readonly string[]
  readonly #connect: Connect
  readonly #all = new Set<Connection>()
  readonly #idle: Connection[] = []
  /** Requests beyond the highest number of connections, in their order. */
  readonly #waiting: Use[] = []

  constructor(options: ConnectionOptions) {
    const { username, password } = options.baseUrl
    const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
    this.#options = options
    this.#headers = [
      ...options.headers,
      ...(username === '' ? [] : ['Authorization', `Basic ${Buffer.from(login).toString('base64')}`]),
    ]
    // One for all of them: it remembers the sessions of TLS for a while. The caller has a deadline of its own.
    this.#connect = buildConnector({ timeout: 0, keepAliveInitialDelay: 1000 })
  }

  /** Sends a GET. Returns what ends it at once, wherever it is. */
  send(path: string, handler: RequestHandler): (reason: Error) => void {
    const use = new Use(path, handler)
    if (this.#idle.length > 0 || this.#all.size < this.#options.maxConnections) this.#start(use)
    else this.#waiting.push(use)
    return (reason) => {
      const place = this.#waiting.indexOf(use)
      if (place !== -1) this.#waiting.splice(place, 1)
      use.cut(reason)
    }
  }

  /** Ends what is under way, too. */
  close(): void {
    const reason = new Error('the connections were closed')
    for (const use of this.#waiting.splice(0)) use.cut(reason)
    for (const connection of this.#all) connection.destroy(reason)
  }

  #start(use: Use): void {
    const connection = this.#idle.pop() ?? this.#open()
    use.start(connection, (state) => {
      if (state === 'usable') this.#idle.push(connection)
      else this.#remove(connection)
      if (state === 'forgotten') for (const idle of this.#idle.splice(0)) this.#remove(idle)
      const next = this.#waiting.shift()
      if (next !== undefined) this.#start(next)
    })
  }

  #open(): Connection {
    const connection = new Connection(this.#options, this.#headers, this.#connect)
    connection.client.on('disconnect', () => {
      const place = this.#idle.indexOf(connection)
      if (place === -1) return
      this.#idle.splice(place, 1)
      this.#remove(connection)
    })
    this.#all.add(connection)
    return connection
  }

  #remove(connection: Connection): void {
    this.#all.delete(connection)
    connection.destroy(new Error('the connection is not needed any more'))
  }
}

/**
 * What a request leaves of its connection. `forgotten`: it was used before, and was gone when the request came without a byte of a
 * response. The server, or something in between, has restarted or forgets idle connections: those that were idle meanwhile are very
 * likely gone, too, and each would cost another attempt.
 */
type Left = 'usable' | 'broken' | 'forgotten'

/** An idle connection is closed then, before anything between here and there forgets it without a word. */
const maxIdleMs = 60_000

class Connection {
  readonly client: Client
  /** Whether a request was sent over it before the last one. */
  wasUsed = false
  readonly #headers: readonly string[]
  #requests = 0
  #socket: Socket | undefined

  constructor({ baseUrl, localAddress }: ConnectionOptions, headers: readonly string[], connect: Connect) {
    this.#headers = headers
    this.client = new Client(baseUrl.origin, {
      connect: (target, done) => (this.#socket = connect(target, done)),
      ...(localAddress === undefined ? {} : { localAddress }),
      pipelining: 1,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: maxIdleMs,
      keepAliveMaxTimeout: maxIdleMs,
      keepAliveTimeoutThreshold: 1000,
    })
  }

  /** Null while all is well with it. */
  get error(): Error | null {
    return this.#socket?.errored ?? null
  }

  dispatch(path: string, handler: Handler): void {
    this.wasUsed = this.#requests++ > 0
    this.client.dispatch({ method: 'GET', path, headers: this.#headers, blocking: false }, handler)
  }

  destroy(reason: Error): void {
    void this.client.destroy(reason)
    // The client would wait for a connection that it has not got yet.
    this.#socket?.destroy()
  }
}

/** A request on its way over a connection. */
class Use implements Handler {
  readonly #path: string
  readonly #handler: RequestHandler
  #connection: Connection | undefined
  #release: ((state: Left) => void) | undefined
  #hasHead = false
  #isCut = false
  #isOver = false

  constructor(path: string, handler: RequestHandler) {
    this.#path = path
    this.#handler = handler
  }

  start(connection: Connection, release: (state: Left) => void): void {
    this.#connection = connection
    this.#release = release
    connection.dispatch(this.#path, this)
  }

  cut(reason: Error): void {
    if (this.#isOver) return
    this.#isCut = true
    // Has the client tell us by `onError`, if it knows of the request.
    this.#connection?.destroy(reason)
    this.onError(reason)
  }

  onConnect(): void {}

  onRequestSent(): void {
    this.#handler.onSent()
  }

  onHeaders(status: number, headers: readonly Buffer[]): boolean {
    this.#hasHead = true
    if (status >= 200) this.#handler.onHead(status, headers)
    return true
  }

  onData(chunk: Buffer): boolean {
    this.#handler.onData(chunk)
    return true
  }

  onComplete(): void {
    if (this.#isOver) return
    // A body that ends with its connection is whole for undici even when the connection was reset.
    const error = this.#connection?.error
    if (error) return this.onError(error)
    this.#end('usable')
    this.#handler.onEnd()
  }

  onError(error: Error): void {
    if (this.#isOver) return
    const isForgotten = this.#connection?.wasUsed === true && !this.#hasHead && !this.#isCut
    this.#end(isForgotten ? 'forgotten' : 'broken')
    this.#handler.onError(error)
  }

  #end(state: Left): void {
    this.#isOver = true
    this.#release?.(state)
  }
}
