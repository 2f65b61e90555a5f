import { startSimulator } from '../src/simulator/server.js'
import { benchInstruments } from './backfillMarket.js'

// The simulator in a process of its own, so that it and what is measured don't wait for each other. It says where it
// listens by a message and ends with the process that started it.
const simulator = await startSimulator({
  customInstruments: benchInstruments(),
  latencyMs: [0, Number(process.env['BENCH_JITTER_MS'] ?? '0')],
  limits: { factor: Number(process.env['BENCH_LIMIT_FACTOR'] ?? '1') },
})
process.once('disconnect', () => void simulator.close())
process.send?.(simulator.url)
