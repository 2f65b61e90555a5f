import { createServer } from 'node:net'

/** Systems hand out ports from 32768 upwards (Linux) or from 49152 to whoever asks for any, and to every outgoing connection. */
const lowest = 20_000
const highest = 32_767

/**
 * A port of 127.0.0.1 for a server that a test stops and starts again at the same address: no other program is given it
 * meanwhile by chance.
 */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest + 1))
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: '127.0.0.1', exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
