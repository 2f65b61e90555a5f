import http from 'node:http'
import axios from 'axios'
import type { SentRequest } from './costDaemonSimulator.js'

// The least that anybody does who uses axios: it sends the requests of a daemon once more, in the same rhythm, and throws the
// responses away. From another address, so that the service's limits hold for it as well. It says by a message what
// it took.
const localAddress = '127.0.0.2'

process.once('message', ({ url, requests }: { url: string; requests: readonly SentRequest[] }) => {
  void send(url, requests).then((use) => {
    process.send?.(use)
    process.disconnect()
  })
})

async function send(url: string, requests: readonly SentRequest[]): Promise<{ cpuSeconds: number; failures: number }> {
  const instance = axios.create({ httpAgent: new http.Agent({ keepAlive: true, localAddress }), proxy: false })
  const before = process.cpuUsage()
  const startedAt = performance.now()
  const firstAt = requests[0]?.atMs ?? 0
  const waiting = new Set<Promise<void>>()
  let failures = 0
  for (const { atMs, path } of requests) {
    const waitMs = atMs - firstAt - (performance.now() - startedAt)
    if (waitMs > 1) await new Promise((resolve) => setTimeout(resolve, waitMs))
    const request = instance.get(`${url}${path}`).then(
      () => undefined,
      () => void failures++,
    )
    waiting.add(request)
    void request.then(() => waiting.delete(request))
  }
  await Promise.all(waiting)
  const { user, system } = process.cpuUsage(before)
  return { cpuSeconds: (user + system) / 1e6, failures }
}
