import { afterEach } from 'vitest'
import { plainQuirks } from '../../support/quirks.js'
import { type Simulator, type SimulatorOptions, startSimulator } from '../../../src/simulator/server.js'

/** A moment at which the smallest market has instruments of every kind. */
export const noon = Date.UTC(2026, 9, 1, 12, 0, 30)

const running: Simulator[] = []

/** A simulator with the smallest market, a clock that stands still, no quirks and no limits unless they are asked for. */
export async function start(options: SimulatorOptions = {}): Promise<Simulator> {
  const simulator = await startSimulator({
    scale: 'tiny',
    now: () => noon,
    limits: { enforce: false },
    journal: true,
    ...options,
    quirks: { ...plainQuirks, ...options.quirks },
  })
  running.push(simulator)
  return simulator
}

/** Stops what `start` started, after each test of the file that calls it. */
export function stopAfterEach(): void {
  afterEach(async () => {
    await Promise.all(running.splice(0).map((simulator) => simulator.close()))
  })
}

export interface Received {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The envelope; null when the body is not JSON. */
  readonly code: string | null
  readonly requestTime: number
  readonly data: unknown
  /** `data` as a list of rows of text. */
  readonly rows: readonly Readonly<Record<string, string>>[]
}

export async function ask(simulator: Simulator, request: string, signal?: AbortSignal): Promise<Received> {
  const response = await fetch(`${simulator.url}/api/v3/market/${request}`, signal ? { signal } : {})
  const text = await response.text()
  const envelope = parsed(text)
  return {
    status: response.status,
    headers: response.headers,
    text,
    code: envelope.code ?? null,
    requestTime: envelope.requestTime ?? Number.NaN,
    data: envelope.data,
    rows: Array.isArray(envelope.data) ? (envelope.data as Received['rows']) : [],
  }
}

function parsed(text: string): { code?: string; requestTime?: number; data?: unknown } {
  try {
    return JSON.parse(text) as { code?: string }
  } catch {
    return {}
  }
}

/** Opening times of a page of candles. */
export function openTimes(received: Received): number[] {
  return received.rows.map((row) => Number(row['0']))
}
