import { monitorEventLoopDelay } from 'node:perf_hooks'
import { startSimulator } from '../src/simulator/server.js'

// The simulator in a process of its own, so that it and what is measured don't wait for each other. It says where it
// listens by a message, replies to every message with its own lag, and ends with the process that started it.
const tickMs = 5
const jitterMs = Number(process.env['BENCH_JITTER_MS'] ?? '0')
const simulator = await startSimulator({ scale: 'tiny', latencyMs: [0, jitterMs] })
const delay = monitorEventLoopDelay({ resolution: tickMs })
delay.enable()
process.on('message', () => {
  process.send?.({ p99Ms: delay.percentile(99) / 1e6 - tickMs, maxMs: delay.max / 1e6 - tickMs })
})
process.once('disconnect', () => void simulator.close())
process.send?.(simulator.url)
