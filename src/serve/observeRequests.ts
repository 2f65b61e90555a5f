import type { ExchangeOptions } from '../exchange/client.js'
import { type Operation, operations } from '../market/operation.js'
import type { Incidents } from '../runtime/incidents.js'
import type { RecorderMetrics } from '../runtime/metrics.js'

/** Returns the name of the incident for requests that were repeated with success. */
const repeated = (operation: Operation) => `repeated requests of ${operation}` as const

/** Starts these counters at 0. Otherwise Prometheus would see no increase at the first rejection. */
function countRejectionsFromZero({ requests }: RecorderMetrics): void {
  for (const operation of operations) {
    for (const outcome of ['rate-limited', 'blocked']) requests.inc({ operation, outcome }, 0)
  }
}

/** Returns hooks that count requests, and report those that succeeded only when they were repeated. */
export function observeRequests(
  metrics: RecorderMetrics,
  incidents: Incidents,
): Pick<ExchangeOptions, 'onRequest' | 'onRepeated'> {
  countRejectionsFromZero(metrics)
  return {
    onRequest({ operation, outcome, attempt, durationMs, waitedMs, priority, bytes }) {
      metrics.requests.inc({ operation, outcome })
      metrics.requestDuration.observe({ operation }, durationMs / 1000)
      metrics.requestWait.observe({ class: priority }, waitedMs / 1000)
      metrics.responseBytes.inc({ operation }, bytes)
      if (outcome === 'ok' && attempt === 1) incidents.succeeded(repeated(operation))
    },
    // The response may have been sent and lost on its way. The next response then shows something else.
    onRepeated: ({ operation, message }) => incidents.failed(repeated(operation), `once more after ${message}`),
  }
}
