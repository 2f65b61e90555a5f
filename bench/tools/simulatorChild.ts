import { monitorEventLoopDelay } from 'node:perf_hooks'
import { type SimulatorOptions, startSimulator } from '../../src/simulator/server.js'
import { childOptions } from './processes.js'
import type { SentRequest, SimulatorLag } from './simulator.js'

// The simulator in a process of its own: it and what is measured must not wait for each other.
const tickMs = 5
const options = childOptions() as SimulatorOptions
const simulator = await startSimulator(options)
const delay = monitorEventLoopDelay({ resolution: tickMs })
delay.enable()
let sent: SentRequest[] = []

/** Keeps the requests of the journal without their responses, which would fill the memory within minutes. */
function drainJournal(): void {
  for (const { atMs, source, operation, parameters } of simulator.control.journal()) {
    const path = `/api/v3/market/${operation}?${new URLSearchParams(parameters).toString()}`
    sent.push({ atMs, source, operation, path })
  }
  simulator.control.clearJournal()
}
if (options.journal === true) setInterval(drainJournal, 1000)

process.on('message', (question) => {
  if (question === 'lag') {
    const lag: SimulatorLag = { p99Ms: delay.percentile(99) / 1e6 - tickMs, maxMs: delay.max / 1e6 - tickMs }
    process.send?.(lag)
    return
  }
  drainJournal()
  process.send?.(sent)
  sent = []
})
process.send?.(simulator.url)
