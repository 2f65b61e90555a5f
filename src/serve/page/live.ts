import { useEffect, useRef, useState } from 'preact/hooks'
import type { InstrumentEvent, Status } from '../api/contract.js'
import { urlOf } from './api.js'

export interface Live {
  readonly status: Status | null
  readonly isConnected: boolean
  /** When the last event came, by this machine's clock. */
  readonly lastEventAt: number | null
  /** Grows whenever what was loaded may be out of date: the recorder was restarted, or its database came back. */
  readonly version: number
}

export interface Watched {
  readonly category: string
  readonly symbol: string
  readonly type: string
  readonly interval: string
}

/** The recorder's status as it changes, and events of the instrument that is watched. */
export function useLive(watched: Watched | null, onInstrument: (event: InstrumentEvent) => void): Live {
  const [live, setLive] = useState<Live>({ status: null, isConnected: true, lastEventAt: null, version: 0 })
  const handler = useRef(onInstrument)
  handler.current = onInstrument
  const url = urlOf('/api/events', { ...watched })

  useEffect(() => {
    let source: EventSource
    let retry: ReturnType<typeof setTimeout> | undefined
    const connect = () => {
      source = new EventSource(url)
      source.addEventListener('status', (event: MessageEvent<string>) => {
        const status = JSON.parse(event.data) as Status
        setLive((before) => ({
          status,
          isConnected: true,
          lastEventAt: Date.now(),
          version: before.version + (isOutOfDate(before, status) ? 1 : 0),
        }))
      })
      source.addEventListener('instrument', (event: MessageEvent<string>) => {
        handler.current(JSON.parse(event.data) as InstrumentEvent)
      })
      source.addEventListener('error', () => {
        setLive((before) => ({ ...before, isConnected: false }))
        // The browser gives up on some failures; we never do.
        if (source.readyState === EventSource.CLOSED) retry = setTimeout(connect, 2000)
      })
    }
    connect()
    return () => {
      clearTimeout(retry)
      source.close()
    }
  }, [url])
  return live
}

function isOutOfDate(before: Live, status: Status): boolean {
  if (before.status === null) return false
  if (before.status.instanceId !== status.instanceId) return true
  return !before.status.database.isReachable && status.database.isReachable
}
