import http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Mode } from './modes.js'

/** A service that is honest, because it asks a simulator, until it is told to attack; then one operation is the attacker's, or all are. */
export interface HostileService {
  readonly url: string
  /** Answers that the attacker has given since the last change. */
  readonly attacks: number
  attack(mode: Mode | null): void
  close(): Promise<void>
}

const agent = new http.Agent({ keepAlive: true })

export async function startHostileService(honestUrl: string): Promise<HostileService> {
  let mode: Mode | null = null
  let attacks = 0
  const server = http.createServer((request, response) => {
    const path = request.url ?? '/'
    const isAttacked =
      mode !== null && (mode.operation === undefined || path.startsWith(`/api/v3/market/${mode.operation}`))
    response.on('error', () => undefined)
    const asked = http.get(new URL(path, honestUrl), { agent }, (honest) => {
      const chunks: Buffer[] = []
      honest.on('data', (chunk: Buffer) => chunks.push(chunk))
      honest.on('end', () => {
        const body = Buffer.concat(chunks)
        if (!isAttacked || mode === null) return void response.writeHead(honest.statusCode ?? 500).end(body)
        attacks += 1
        mode.attack({ request, response, honest: body.toString() })
      })
    })
    asked.on('error', () => response.destroy())
  })
  server.on('connection', (socket) => socket.on('error', () => undefined))
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get attacks() {
      return attacks
    },
    attack(next) {
      mode = next
      attacks = 0
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
        agent.destroy()
      }),
  }
}
