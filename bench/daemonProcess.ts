import { monitorEventLoopDelay } from 'node:perf_hooks'
import { startRecorder } from '../src/app.js'
import { loadConfig } from '../src/config/resolve.js'
import { keepHeapSmall } from '../src/runtime/process.js'
import { createLogger } from '../src/runtime/logger.js'

/** What the daemon under test tells of itself, since its start. */
export interface DaemonSample {
  readonly seconds: number
  readonly residentBytes: number
  readonly heapUsedBytes: number
  readonly lagP99Ms: number
  readonly requests: number
  readonly failures: number
  /** Rows that changed the database. */
  readonly rowsWritten: number
}

const sampleEveryMs = Number(process.env['BENCH_SAMPLE_MS'] ?? 5_000)
/** The monitor counts the whole time between two of its ticks; what exceeds the tick is lag. */
const tickMs = 10

keepHeapSmall()
const config = loadConfig({ env: process.env })
config.database.dataDir = process.env['BENCH_DATA_DIR'] ?? './data'
config.serve.port = 0
config.streams.orderBooks.select.busiest = 100
config.streams.fills.select.busiest = 100
if (process.env['BENCH_TICKERS'] !== undefined) config.streams.tickers.schedule = process.env['BENCH_TICKERS']
config.streams.rpiOrderBooks.enabled = false
config.streams.candles.enabled = false

const recorder = await startRecorder(config, createLogger('warn'))
const startedAt = performance.now()
const delay = monitorEventLoopDelay({ resolution: tickMs })
delay.enable()

function sendSample(): void {
  const stats = Object.values(recorder.collector.stats)
  const sum = (field: 'responses' | 'failures' | 'rowsWritten') =>
    stats.reduce((total, stream) => total + stream[field], 0)
  const memory = process.memoryUsage()
  const sample: DaemonSample = {
    seconds: (performance.now() - startedAt) / 1000,
    residentBytes: memory.rss,
    heapUsedBytes: memory.heapUsed,
    lagP99Ms: Math.max(0, delay.percentile(99) / 1e6 - tickMs),
    requests: sum('responses'),
    failures: sum('failures'),
    rowsWritten: sum('rowsWritten'),
  }
  process.send?.(sample)
}
const timer = setInterval(sendSample, sampleEveryMs)

process.once('SIGTERM', () => {
  clearInterval(timer)
  void recorder.stop().then(() => process.exit(0))
})
