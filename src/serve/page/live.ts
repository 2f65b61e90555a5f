import { useEffect, useRef, useState } from 'preact/hooks'
import { isTradedCategory } from '../../market/category.js'
import type { Status } from '../api/contract.js'
import type { MarketResponses } from '../api/marketContract.js'
import type { EventsQuestion } from '../api/endpoints.js'
import { askAgain, keepEvent, urlOf } from './loaded.js'
import type { View } from './view.js'

export interface Live {
  readonly status: Status | null
  readonly isConnected: boolean
  /** Time of the last event, by this machine's clock; null before the first. */
  readonly lastEventAt: number | null
}

/** Returns the URL of the event stream for a view: the recorder's status, and an instrument that has candles. */
export function eventsUrl({ category, symbol, type, interval }: View): string {
  if (category === null || symbol === null || !isTradedCategory(category)) return '/api/events'
  return urlOf('/api/events', { category, symbol, type, interval } satisfies EventsQuestion)
}

/** Follows the recorder's status. Keeps events of an instrument under the URL of their stream. */
export function useLive(url: string): Live {
  const [live, setLive] = useState<Live>({ status: null, isConnected: true, lastEventAt: null })

  const newest = useRef<Status | null>(null)
  useEffect(() => {
    let source: EventSource
    let retry: ReturnType<typeof setTimeout> | undefined
    const connect = () => {
      source = new EventSource(url)
      source.addEventListener('status', (event: MessageEvent<string>) => {
        const status = JSON.parse(event.data) as Status
        if (isOutOfDate(newest.current, status)) askAgain()
        newest.current = status
        setLive({ status, isConnected: true, lastEventAt: Date.now() })
      })
      source.addEventListener('instrument', (event: MessageEvent<string>) => {
        keepEvent(url, JSON.parse(event.data) as MarketResponses['event'])
      })
      source.addEventListener('error', () => {
        setLive((before) => ({ ...before, isConnected: false }))
        // The browser stops after some failures. The page connects again after any failure.
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

/** Returns true if loaded data may be out of date: the recorder was restarted, or its database came back. */
function isOutOfDate(before: Status | null, now: Status): boolean {
  if (before === null) return false
  return before.instanceId !== now.instanceId || (!before.database.isReachable && now.database.isReachable)
}
