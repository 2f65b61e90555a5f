import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { lastingPort } from '../src/server/embedded/port.js'
import { startProgram } from '../test/support/program.js'
import { configFile, readMetrics, withFolder } from './tools/recorder.js'
import { startSimulatorChild } from './tools/simulator.js'

/** As often as Prometheus usually asks. */
const sampleEveryMs = 5_000

interface Sample {
  readonly seconds: number
  readonly residentBytes: number
  readonly heapBytes: number
  readonly lagP99Ms: number
  readonly responses: number
  readonly failures: number
  readonly rows: number
}

/** Records at live scale for some time. Says whether the recorder's memory grows, and the lag of its event loop. */
export async function benchSoak(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { minutes: { type: 'string', default: '60' }, tickers: { type: 'string', default: '*/15 * * * * *' } },
  })
  const minutes = Number(values.minutes)
  if (!(minutes >= 5)) throw new Error('--minutes must be 5 or more')
  const samples = await withFolder('soak', (folder) => sampleRecorder(folder, minutes, values.tickers))
  const lastHalf = samples.slice(Math.floor(samples.length / 2))
  const { slope, uncertainty } = trendOf(
    lastHalf.map(({ seconds, residentBytes }) => ({ x: seconds / 3600, y: residentBytes / 1e6 })),
  )
  const isFlat = slope - uncertainty <= 0
  const { responses = 0, failures = 0 } = samples.at(-1) ?? {}
  console.log(
    `slope of resident memory over the last half: ${slope.toFixed(2)} ± ${uncertainty.toFixed(2)} MB an hour: ` +
      `${isFlat ? 'no growth that could be told from zero' : 'it grows'}; ${responses} responses, ${failures} requests failed`,
  )
  return isFlat ? 0 : 1
}

async function sampleRecorder(folder: string, minutes: number, tickers: string): Promise<Sample[]> {
  const simulator = await startSimulatorChild({ scale: 'live' })
  const port = await lastingPort()
  const busiest = { select: { busiest: 100 } }
  const config = await configFile(folder, 'soak', {
    database: { dataDir: folder },
    serve: { port },
    streams: {
      tickers: { schedule: tickers },
      orderBooks: busiest,
      fills: busiest,
      rpiOrderBooks: { enabled: false },
      candles: { enabled: false },
    },
  })
  const env = { EXCHANGE_BASE_URL: simulator.url, LOG_LEVEL: 'warn' }
  const recorder = startProgram(['start', '--config', config], env)
  const ended = recorder.finished.then(({ stderr }) => {
    throw new Error(`the recorder ended by itself: ${stderr}`)
  })
  ended.catch(() => undefined)
  const samples: Sample[] = []
  try {
    const startedAt = performance.now()
    const untilMs = startedAt + minutes * 60_000
    while (performance.now() < untilMs) {
      await Promise.race([sleep(sampleEveryMs), ended])
      const sample = await readSample(port, (performance.now() - startedAt) / 1000)
      if (sample === null) continue
      samples.push(sample)
      if (samples.length % 60 === 0) printSample(sample)
    }
    return samples
  } finally {
    recorder.process.kill('SIGTERM')
    await recorder.finished
    await simulator.close()
  }
}

/** Null while the recorder does not serve its metrics yet. */
async function readSample(port: number, seconds: number): Promise<Sample | null> {
  const metric = await readMetrics(`http://127.0.0.1:${port}`).catch(() => null)
  if (metric === null) return null
  return {
    seconds,
    residentBytes: metric('process_resident_memory_bytes'),
    heapBytes: metric('nodejs_heap_size_used_bytes'),
    lagP99Ms: metric('nodejs_eventloop_lag_p99_seconds') * 1000,
    responses: metric('market_recorder_stream_responses_total'),
    failures: metric('market_recorder_stream_failures_total'),
    rows: metric('market_recorder_rows_written_total'),
  }
}

function printSample({ seconds, residentBytes, heapBytes, lagP99Ms, responses, rows }: Sample): void {
  const [minutes, resident, heap] = [seconds / 60, residentBytes / 1e6, heapBytes / 1e6].map((n) => n.toFixed(0))
  console.log(
    `${minutes} min: ${resident} MB, heap ${heap} MB, lag p99 ${lagP99Ms.toFixed(1)} ms, ${responses} responses, ${rows} rows`,
  )
}

/** A straight line through samples. */
interface Trend {
  /** Units of y per unit of x. */
  readonly slope: number
  /** Half the width of the slope's 95 % confidence interval. */
  readonly uncertainty: number
}

/** Two-sided 95 % quantile of Student's distribution with 8 degrees of freedom: ten blocks, two parameters. */
const student = 2.306
const blocks = 10

/**
 * Fits a line to the means of ten blocks of consecutive samples. Neighbouring samples of a process's memory depend on
 * each other: a slope of single samples would look surer than it is.
 */
function trendOf(samples: readonly { readonly x: number; readonly y: number }[]): Trend {
  if (samples.length < blocks * 2) throw new Error(`a trend needs ${blocks * 2} samples, got ${samples.length}`)
  const means = Array.from({ length: blocks }, (_, block) => {
    const from = Math.floor((block * samples.length) / blocks)
    const part = samples.slice(from, Math.floor(((block + 1) * samples.length) / blocks))
    return { x: mean(part.map(({ x }) => x)), y: mean(part.map(({ y }) => y)) }
  })
  const meanX = mean(means.map(({ x }) => x))
  const meanY = mean(means.map(({ y }) => y))
  const spread = means.reduce((sum, { x }) => sum + (x - meanX) ** 2, 0)
  const slope = means.reduce((sum, { x, y }) => sum + (x - meanX) * (y - meanY), 0) / spread
  const residual = means.reduce((sum, { x, y }) => sum + (y - meanY - slope * (x - meanX)) ** 2, 0)
  return { slope, uncertainty: student * Math.sqrt(residual / (blocks - 2) / spread) }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length
}
