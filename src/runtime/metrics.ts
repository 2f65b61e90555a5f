import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'

/** Prefix of the recorder's own metrics. Metrics of the process and of Node keep names that dashboards know. */
export const metricPrefix = 'market_recorder_'

/** Metrics of events, which are counted when they happen. States such as queues and budgets are read at each scrape. */
export interface RecorderMetrics {
  readonly registry: Registry
  readonly requests: Counter<'operation' | 'outcome'>
  readonly requestDuration: Histogram<'operation'>
  readonly requestWait: Histogram<'class'>
  readonly responseBytes: Counter<'operation'>
  readonly writeDuration: Histogram<'stream'>
  readonly storeLag: Histogram<'stream'>
  readonly archiveFailing: Gauge
  /** Stored rows per instrument; null unless configured, because there may be thousands of instruments. */
  readonly instrumentStored: Gauge<'stream' | 'category' | 'symbol'> | null
}

interface MetricsOptions {
  readonly version: string
  /** True if each instrument has a series of its own. Default false. */
  readonly byInstrument?: boolean
}

const requestBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const writeBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const lagBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300]

/** Gauges that prom-client names like counters. Prometheus' conventions do not allow that. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total']

/** Creates a registry for one recorder, because several may run in a process. */
export function createMetrics({ version, byInstrument = false }: MetricsOptions): RecorderMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)
  const registers = [registry]
  const name = (rest: string) => `${metricPrefix}${rest}`
  new Gauge({
    name: name('build_info'),
    help: 'Always 1; the labels name the version that is running.',
    labelNames: ['version', 'node'],
    registers,
  }).set({ version, node: process.version }, 1)
  return {
    registry,
    requests: new Counter({
      name: name('requests_total'),
      help: 'Requests to the service, every attempt, by how they ended.',
      labelNames: ['operation', 'outcome'],
      registers,
    }),
    requestDuration: new Histogram({
      name: name('request_duration_seconds'),
      help: 'From sending a request to the last byte of its response, or to its failure.',
      labelNames: ['operation'],
      buckets: requestBuckets,
      registers,
    }),
    requestWait: new Histogram({
      name: name('request_wait_seconds'),
      help: 'How long requests waited for their place within the limits, by class of urgency.',
      labelNames: ['class'],
      buckets: lagBuckets,
      registers,
    }),
    responseBytes: new Counter({
      name: name('response_bytes_total'),
      help: 'Bytes of responses, after decompression.',
      labelNames: ['operation'],
      registers,
    }),
    writeDuration: new Histogram({
      name: name('write_duration_seconds'),
      help: 'Time of one transaction that stores a response.',
      labelNames: ['stream'],
      buckets: writeBuckets,
      registers,
    }),
    storeLag: new Histogram({
      name: name('store_lag_seconds'),
      help: "From the last byte of a response to its commit, by the recorder's clock.",
      labelNames: ['stream'],
      buckets: lagBuckets,
      registers,
    }),
    archiveFailing: new Gauge({
      name: name('archive_failing'),
      help: 'Whether the last run of the archiver failed, or rows were kept past their age because the archive does not have them.',
      registers,
    }),
    instrumentStored: byInstrument
      ? new Gauge({
          name: name('instrument_last_stored_timestamp_seconds'),
          help: 'When a response for the instrument was last stored, Unix time.',
          labelNames: ['stream', 'category', 'symbol'],
          registers,
        })
      : null,
  }
}
