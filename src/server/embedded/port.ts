import { createServer } from 'node:net'
import { random } from '../../runtime/randomness.js'

/**
 * Systems give ports from 32768 (Linux) or 49152 on to outgoing connections. While a server is away, even the client
 * that tries to reach it could be given its port.
 */
const lowest = 20_000
const highest = 32_767

/** Returns a free port of 127.0.0.1 that no other program gets by chance while its server is away. */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.floor(random() * (highest - lowest + 1))
    if (await isFree(port)) return port
  }
}

/** Returns true if a server could listen on this port of 127.0.0.1. */
export function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
