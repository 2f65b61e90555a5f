// The parts of undici that are used, as its version 7 has them. Its main file would load fetch, WebSocket and more: several megabytes.

declare module 'undici/lib/dispatcher/client.js' {
  import type { EventEmitter } from 'node:events'
  import type { Connect } from 'undici/lib/core/connect.js'

  /** Told of one request, in this order. An error is the last that it is told. */
  export interface Handler {
    /** The request is about to be written; `abort` ends it from now on. */
    onConnect(abort: (reason: Error) => void): void
    /** The last byte of the request was handed to the operating system. */
    onRequestSent(): void
    /** Also for informational responses. Names and values take turns. */
    onHeaders(status: number, headers: readonly Buffer[]): boolean
    onData(chunk: Buffer): boolean
    onComplete(): void
    onError(error: Error): void
  }

  export interface ClientOptions {
    readonly connect: Connect
    readonly localAddress?: string
    readonly pipelining: number
    /** In milliseconds, as all of these; 0 for none. */
    readonly headersTimeout: number
    readonly bodyTimeout: number
    /** Of an idle connection for which the other side names none. */
    readonly keepAliveTimeout: number
    readonly keepAliveMaxTimeout: number
    /** How much sooner than the other side an idle connection is closed. */
    readonly keepAliveTimeoutThreshold: number
  }

  export interface RequestOptions {
    readonly method: string
    readonly path: string
    /** Names and values take turns. */
    readonly headers: readonly string[]
    readonly blocking: boolean
  }

  /** At most one connection, which is opened when there is something to send. */
  export default class Client extends EventEmitter<{ disconnect: unknown[] }> {
    constructor(origin: string, options: ClientOptions)
    dispatch(request: RequestOptions, handler: Handler): boolean
    /** Fails what waits and what is under way. */
    destroy(reason: Error): Promise<void>
  }
}

declare module 'undici/lib/core/connect.js' {
  import type { Socket } from 'node:net'

  export type Connect = (target: object, callback: (error: Error | null, socket?: Socket) => void) => Socket

  export interface ConnectOptions {
    /** In milliseconds; 0 for none. */
    readonly timeout: number
    readonly keepAliveInitialDelay: number
  }

  export default function buildConnector(options: ConnectOptions): Connect
}

declare module 'undici/lib/llhttp/constants.js' {
  const constants: { readonly ERROR: Record<string, number | string> }
  export default constants
}
