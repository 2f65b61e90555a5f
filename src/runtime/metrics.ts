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
}

const requestBuckets = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
const writeBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const lagBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300]

/** Gauges that prom-client names like counters. Prometheus' conventions do not allow that. */
const misnamed = ['nodejs_active_handles_total', 'nodejs_active_requests_total', 'nodejs_active_resources_total']

/** Creates a registry for one recorder, because several may run in a process. */
export function createMetrics({ version }: { readonly version: string }): RecorderMetrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)
  const { gauge, counter, histogram } = createMaker(registry)
  const buildInfo = gauge('build_info', 'Always 1; the labels name the version that is running.', 'version', 'node')
  buildInfo.set({ version, node: process.version }, 1)
  return {
    registry,
    requests: counter(
      'requests_total',
      'Requests to the service, every attempt, by how they ended.',
      'operation',
      'outcome',
    ),
    requestDuration: histogram(
      requestBuckets,
      'request_duration_seconds',
      'From sending a request to the last byte of its response, or to its failure.',
      'operation',
    ),
    requestWait: histogram(
      lagBuckets,
      'request_wait_seconds',
      'How long requests waited for their place within the limits, by class of urgency.',
      'class',
    ),
    responseBytes: counter('response_bytes_total', 'Bytes of responses, after decompression.', 'operation'),
    writeDuration: histogram(
      writeBuckets,
      'write_duration_seconds',
      'Time of one transaction that stores a response.',
      'stream',
    ),
    storeLag: histogram(
      lagBuckets,
      'store_lag_seconds',
      "From the last byte of a response to its commit, by the recorder's clock.",
      'stream',
    ),
    archiveFailing: gauge(
      'archive_failing',
      'Whether the last run of the archiver failed, or rows were kept past their age because the archive does not have them.',
    ),
  }
}

/** Returns functions that define metrics of a registry, by their names without the recorder's prefix. */
export function createMaker(registry: Registry) {
  const given = <Label extends string>(name: string, help: string, labelNames: Label[]) => {
    return { name: `${metricPrefix}${name}`, help, labelNames, registers: [registry] }
  }
  return {
    gauge: <Label extends string>(name: string, help: string, ...labels: Label[]) =>
      new Gauge(given(name, help, labels)),
    counter: <Label extends string>(name: string, help: string, ...labels: Label[]) =>
      new Counter(given(name, help, labels)),
    histogram: <Label extends string>(buckets: number[], name: string, help: string, ...labels: Label[]) =>
      new Histogram({ ...given(name, help, labels), buckets }),
  }
}
