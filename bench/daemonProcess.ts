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
  readonly lagMeanMs: number
  readonly lagMaxMs: number
  readonly cpuSeconds: number
  readonly requests: number
  /** Those of them that follow a timetable; the others, for fills, follow the market. */
  readonly timedRequests: number
  readonly failures: number
  readonly skippedPolls: number
  /** Rows that changed the database. */
  readonly rowsWritten: number
  /** Rows brought to the database, those that were there already included. */
  readonly rowsStored: number
  /** Share of the responses that were committed within 100 ms of their last byte. */
  readonly promptShare: number
  readonly spooledBytes: number
  readonly isSpooling: boolean
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
const startCpu = process.cpuUsage()
const delay = monitorEventLoopDelay({ resolution: tickMs })
delay.enable()

/** Of all streams together. */
async function promptShare(): Promise<number> {
  const { values } = await recorder.metrics.storeLag.get()
  const upTo = (le: number | '+Inf') =>
    values.filter(({ labels }) => 'le' in labels && labels.le === le).reduce((sum, { value }) => sum + value, 0)
  return upTo(0.1) / upTo('+Inf')
}

async function sendSample(): Promise<void> {
  const stats = Object.values(recorder.collector.stats)
  const sum = (field: 'responses' | 'failures' | 'skippedPolls' | 'rowsWritten' | 'rowsUnchanged') =>
    stats.reduce((total, stream) => total + stream[field], 0)
  const { user, system } = process.cpuUsage(startCpu)
  const memory = process.memoryUsage()
  const sample: DaemonSample = {
    seconds: (performance.now() - startedAt) / 1000,
    residentBytes: memory.rss,
    heapUsedBytes: memory.heapUsed,
    lagP99Ms: Math.max(0, delay.percentile(99) / 1e6 - tickMs),
    lagMeanMs: Math.max(0, delay.mean / 1e6 - tickMs),
    lagMaxMs: Math.max(0, delay.max / 1e6 - tickMs),
    cpuSeconds: (user + system) / 1e6,
    requests: sum('responses'),
    timedRequests: sum('responses') - recorder.collector.stats.fills.responses,
    failures: sum('failures'),
    skippedPolls: sum('skippedPolls'),
    rowsWritten: sum('rowsWritten'),
    rowsStored: sum('rowsWritten') + sum('rowsUnchanged'),
    promptShare: await promptShare(),
    spooledBytes: recorder.storing.queue.backlog().spooledBytes,
    isSpooling: recorder.storing.queue.backlog().isSpooling,
  }
  process.send?.(sample)
}
const timer = setInterval(() => void sendSample(), sampleEveryMs)

process.once('SIGTERM', () => {
  clearInterval(timer)
  void recorder.stop().then(() => process.exit(0))
})
