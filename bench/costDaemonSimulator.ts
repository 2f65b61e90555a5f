import { startSimulator } from '../src/simulator/server.js'

/** A request that the market was sent: what it asks for, the path with its parameters, and when. */
export interface SentRequest {
  readonly atMs: number
  readonly operation: string
  readonly path: string
}

// The live market in a process of its own. It says where it listens by a message, and replies to every message with the
// requests of one client since the one before. It ends with the process that started it.
const recorderAddress = '127.0.0.1'
const simulator = await startSimulator({ scale: 'live', journal: true })
let sent: SentRequest[] = []

// The responses of minutes would not fit into memory.
const drain = () => {
  for (const { atMs, source, operation, parameters } of simulator.control.journal()) {
    if (!source.includes(recorderAddress)) continue
    sent.push({ atMs, operation, path: `/api/v3/market/${operation}?${new URLSearchParams(parameters).toString()}` })
  }
  simulator.control.clearJournal()
}
const timer = setInterval(drain, 1000)
process.on('message', () => {
  drain()
  process.send?.(sent)
  sent = []
})
process.once('disconnect', () => {
  clearInterval(timer)
  void simulator.close()
})
process.send?.(simulator.url)
