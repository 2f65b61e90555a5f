import http from 'node:http'
import type { AddressInfo } from 'node:net'

/** Fault of a request. `lose` carries it out and cuts the connection before the response, `cut` in the middle of it. */
export type HttpFault = 'lose' | 'cut' | 'refuse' | { readonly status: number; readonly body: string }

export interface HttpFaults {
  readonly url: string
  /** Requests so far, as method and path with query. */
  readonly requests: string[]
  /** Decides on each request; null lets it through. */
  decide: (request: http.IncomingMessage) => HttpFault | null
  close(): Promise<void>
}

/** A way to an HTTP server on which requests fail as they do on networks, and of services that are busy. */
export async function startHttpFaults(target: string): Promise<HttpFaults> {
  const { hostname, port } = new URL(target)
  const agent = new http.Agent({ keepAlive: true })
  const server = http.createServer((request, response) => {
    faults.requests.push(`${request.method} ${request.url}`)
    const fault = faults.decide(request)
    request.on('error', () => undefined)
    if (fault === 'refuse') {
      request.socket.destroy()
      return
    }
    if (fault !== null && typeof fault === 'object') {
      request.resume()
      request.once('end', () => response.writeHead(fault.status, { 'content-type': 'application/xml' }).end(fault.body))
      return
    }
    const { method, url, headers } = request
    const onward = http.request({ hostname, port, method, path: url, headers, agent }, (found) => {
      if (fault === 'lose') {
        found.resume()
        found.once('end', () => request.socket.destroy())
        return
      }
      response.writeHead(found.statusCode ?? 502, found.headers)
      if (fault === 'cut') {
        found.once('data', (chunk: Buffer) => cutWithin(chunk, response, request))
        found.once('end', () => request.socket.destroy())
      } else found.pipe(response)
    })
    onward.on('error', () => request.socket.destroy())
    request.pipe(onward)
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  const faults: HttpFaults = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: [],
    decide: () => null,
    close: () =>
      new Promise((resolve) => {
        agent.destroy()
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return faults
}

function cutWithin(chunk: Buffer, response: http.ServerResponse, request: http.IncomingMessage): void {
  response.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => request.socket.destroy())
}

/** As Amazon says that it is asked too much. */
export const slowDown: HttpFault = {
  status: 503,
  body: '<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>',
}
