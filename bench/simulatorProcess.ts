import { startSimulator } from '../src/simulator/server.js'

// The simulator in a process of its own, so that it and what is measured don't wait for each other. It says where it
// listens by a message, and ends with the process that started it.
const jitterMs = Number(process.env['BENCH_JITTER_MS'] ?? '0')
const simulator = await startSimulator({ scale: 'tiny', latencyMs: [0, jitterMs] })
process.once('disconnect', () => void simulator.close())
process.send?.(simulator.url)
