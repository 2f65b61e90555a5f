import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A server that can stop listening and come back on the same port, for the times when it is to refuse connections. */
interface Listener {
  readonly port: number
  /** Opens or closes the port; calls that overlap take effect in order. */
  setOpen(isOpen: boolean): Promise<void>
}

export async function openListener(server: Server, host: string, port: number): Promise<Listener> {
  await listen(server, host, port)
  const actualPort = (server.address() as AddressInfo).port
  let isOpen = true
  let queue: Promise<void> = Promise.resolve()
  const change = async (open: boolean): Promise<void> => {
    if (open === isOpen) return
    await (open ? listen(server, host, actualPort) : shut(server))
    isOpen = open
  }
  return {
    port: actualPort,
    setOpen(open) {
      queue = queue.then(
        () => change(open),
        () => change(open),
      )
      return queue
    },
  }
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const onError = (cause: NodeJS.ErrnoException): void => {
      const hint = cause.code === 'EADDRINUSE' ? 'choose another port, or 0 for any free one' : cause.message
      reject(new Error(`the simulator cannot listen on ${host}:${port}: ${hint}`, { cause }))
    }
    server.once('error', onError)
    server.listen(port, host, () => {
      server.off('error', onError)
      resolve()
    })
  })
}

function shut(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeAllConnections()
  })
}
