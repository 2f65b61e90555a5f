import { connect, createServer, type Socket } from 'node:net'
import { lastingPort } from '../../src/server/embedded/server.js'

/** A way to a server that a test can break in the ways that networks break. */
export interface TcpProxy {
  readonly port: number
  /** `url` with this proxy's address instead of the server's. */
  through(url: string): string
  /** Connections that exist fall silent, and new ones are not answered: nobody is told. */
  stall(): void
  /** Connections that exist fall silent for ever, as when a router forgets them. New ones work. */
  forget(): void
  /** Every connection is cut, and new ones are refused. */
  refuse(): Promise<void>
  /** Everything works again; what was stalled goes on. */
  restore(): Promise<void>
  /** Cuts what exists; new connections work. */
  cut(): void
  /** Cuts as the server's machine does when it finds that a silent peer is gone. */
  cutOnServerSide(): void
  close(): Promise<void>
}

interface Pair {
  readonly client: Socket
  readonly server: Socket
}

export async function startTcpProxy(targetUrl: string): Promise<TcpProxy> {
  const { hostname, port: targetPort } = new URL(targetUrl)
  const pairs = new Set<Pair>()
  const stalled = new WeakSet<Pair>()
  let isStalled = false
  const create = () => {
    const proxy = createServer({ allowHalfOpen: false }, (client) => {
      const server = connect(Number(targetPort), hostname)
      const pair = { client, server }
      pairs.add(pair)
      for (const socket of [client, server]) {
        socket.on('error', () => undefined)
        socket.on('close', () => {
          // In a stalled network the other end does not hear of it.
          if (isStalled) return
          pairs.delete(pair)
          for (const other of [client, server]) other.destroy()
        })
      }
      client.pipe(server)
      server.pipe(client)
      if (isStalled) stallPair(pair)
    })
    return proxy
  }
  const stallPair = (pair: Pair) => {
    const { client, server } = pair
    stalled.add(pair)
    client.unpipe(server)
    server.unpipe(client)
    client.pause()
    server.pause()
  }
  const destroyAll = () => {
    for (const { client, server } of pairs) for (const socket of [client, server]) socket.destroy()
    pairs.clear()
  }
  let proxy = create()
  const port = await lastingPort()
  const listen = () =>
    new Promise<void>((resolve, reject) => {
      proxy.once('error', reject)
      proxy.listen(port, '127.0.0.1', resolve)
    })
  await listen()
  const stopListening = () =>
    new Promise<void>((resolve) => {
      proxy.close(() => resolve())
      destroyAll()
    })
  return {
    port,
    through(url) {
      const parsed = new URL(url)
      parsed.hostname = '127.0.0.1'
      parsed.port = String(port)
      return parsed.href
    },
    stall() {
      isStalled = true
      for (const pair of pairs) stallPair(pair)
    },
    forget() {
      for (const pair of pairs) stallPair(pair)
    },
    refuse: stopListening,
    async restore() {
      isStalled = false
      for (const pair of pairs) {
        // What is piped twice arrives twice.
        if (!stalled.delete(pair)) continue
        const { client, server } = pair
        if (client.destroyed || server.destroyed) {
          client.destroy()
          server.destroy()
          pairs.delete(pair)
          continue
        }
        client.pipe(server)
        server.pipe(client)
      }
      if (!proxy.listening) {
        proxy = create()
        await listen()
      }
    },
    cut: destroyAll,
    cutOnServerSide() {
      for (const { server } of pairs) server.destroy()
    },
    async close() {
      isStalled = false
      if (proxy.listening) await stopListening()
    },
  }
}
