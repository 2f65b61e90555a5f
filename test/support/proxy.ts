import http from 'node:http'
import net, { type AddressInfo, type Socket } from 'node:net'

export interface Proxy {
  readonly port: number
  /** Every request that it was sent: its method, what for, and by whom. */
  readonly seen: readonly { readonly method: string; readonly target: string; readonly login: string }[]
  close(): Promise<void>
}

/**
 * An HTTP proxy on a free loopback port that forwards requests, opens tunnels, and admits one login.
 *
 * @param targets origins by the hosts that stand for them, where names mean nothing to a resolver
 */
export async function startProxy(login: string, targets: Readonly<Record<string, string>> = {}): Promise<Proxy> {
  const seen: { method: string; target: string; login: string }[] = []
  const tunnels = new Set<Socket>()
  const isAdmitted = ({ method = '', url = '', headers }: http.IncomingMessage) => {
    const [, encoded = ''] = (headers['proxy-authorization'] ?? '').split(' ')
    const given = Buffer.from(encoded, 'base64').toString()
    seen.push({ method, target: url, login: given })
    return given === login
  }
  const server = http.createServer((request, response) => {
    if (!isAdmitted(request)) return void response.writeHead(407).end()
    const { 'proxy-authorization': _, ...headers } = request.headers
    const asked = new URL(request.url ?? '')
    http
      .get(new URL(asked.pathname + asked.search, targets[asked.hostname] ?? asked.origin), { headers }, (incoming) => {
        response.writeHead(incoming.statusCode ?? 502, incoming.headers)
        incoming.pipe(response)
      })
      .on('error', () => response.writeHead(502).end())
  })
  server.on('connect', (request, client: Socket) => {
    tunnels.add(client)
    client.on('error', () => undefined)
    if (!isAdmitted(request)) return void client.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n')
    const { hostname, port } = new URL(`http://${request.url}`)
    const upstream = net.connect(Number(port), hostname, () => {
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      upstream.pipe(client).pipe(upstream)
    })
    upstream.on('error', () => client.destroy())
    client.on('close', () => upstream.destroy())
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
        for (const tunnel of tunnels) tunnel.destroy()
      }),
  }
}
