import {
  keepPreviousData,
  QueryClient,
  QueryObserver,
  type QueryObserverOptions,
  skipToken,
} from '@tanstack/query-core'
import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { isTradedCategory } from '../../market/category.js'
import type { Status } from '../api/contract.js'
import type { ApiPath, EventsQuestion, Question, ResponseOf } from '../api/endpoints.js'
import type { MarketResponses } from '../api/marketContract.js'
import type { View } from './view.js'

/** Keeps every response under its request, so that data of one instrument never appears for another. */
const client = new QueryClient({
  defaultOptions: {
    queries: {
      // The recorder may run on the same machine, so requests do not depend on the browser being online.
      networkMode: 'always',
      // A failed request is repeated at the next interval, or when the recorder or its database returns.
      retry: false,
      gcTime: 60_000,
      // Redraws only when one of these values changes.
      notifyOnChangeProps: ['data', 'error', 'isPlaceholderData'],
    },
  },
})

interface Asked<Data> {
  /** The last response to this request; null before the first. It stays while the next one is awaited or fails. */
  readonly response: Data | null
  readonly error: string | null
  /** True if the response belongs to the previous request, which only `keepsPrevious` allows. */
  readonly isPrevious: boolean
}

interface AskOptions {
  /** Interval at which the request is repeated. A page in the background does not repeat it. */
  readonly everyMs?: number | undefined
  /** True to show the previous response until the first response to this request arrives. */
  readonly keepsPrevious?: boolean
}

/** Requests data from the API and redraws on changes. A null `question` sends no request. */
export function useResponse<Path extends ApiPath>(
  path: Path,
  question: Question<Path> | null,
  { everyMs, keepsPrevious = false }: AskOptions = {},
): Asked<ResponseOf<Path>> {
  const asked = question !== null
  return useStored<ResponseOf<Path>>({
    queryKey: [asked ? urlOf(path, question) : `${path} not asked`],
    queryFn: asked ? ({ signal }) => ask(path, question, signal) : skipToken,
    refetchInterval: everyMs ?? false,
    ...(keepsPrevious ? { placeholderData: keepPreviousData } : {}),
  })
}

/** Returns the newest event of the stream at a URL; null before the first. */
export function useEvent(url: string): MarketResponses['event'] | null {
  return useStored<MarketResponses['event']>({ queryKey: [url], queryFn: skipToken }).response
}

type StoredOptions<Data> = QueryObserverOptions<Data, Error, Data, Data>

function useStored<Data>(given: StoredOptions<Data>): Asked<Data> {
  const options = client.defaultQueryOptions(given)
  const [observer] = useState(() => new QueryObserver<Data, Error, Data, Data>(client, options))
  const [, redraw] = useReducer((times: number) => times + 1, 0)
  useEffect(() => observer.subscribe(() => redraw(undefined)), [observer])
  useEffect(() => observer.setOptions(options))
  // Reads the result for the new options. The observer gets a new request only after this render.
  const { data, error, isPlaceholderData } = observer.getOptimisticResult(options)
  return { response: data ?? null, error: error?.message ?? null, isPrevious: isPlaceholderData }
}

/** Requests data from the API. Rejects with the server's message, or a short one if a notice explains more. */
export async function ask<Path extends ApiPath>(
  path: Path,
  question: Question<Path>,
  signal?: AbortSignal,
): Promise<ResponseOf<Path>> {
  const response = await fetch(urlOf(path, question), signal === undefined ? {} : { signal }).catch(
    (cause: unknown) => {
      throw new Error('Waits for the recorder.', { cause })
    },
  )
  if (response.status === 503) throw new Error('Waits for the database.')
  const body = (await response.json()) as ResponseOf<Path> & { error?: string }
  if (!response.ok) throw new Error(body.error ?? `the recorder responded with ${response.status}`)
  return body
}

/** Returns the URL of a request. Undefined and empty values are left out, so that equal requests have equal URLs. */
function urlOf(path: string, question: object): string {
  const fields = question as Readonly<Record<string, string | number | undefined>>
  const given = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, String(value)]],
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}

export interface Live {
  readonly status: Status | null
  readonly isConnected: boolean
  /** Time of the last event, by this machine's clock; null before the first. */
  readonly lastEventAt: number | null
}

/** Returns the URL of the event stream for a view: the recorder's status, and an instrument that has candles. */
export function eventsUrl({ shows, category, symbol, type, interval }: View): string {
  if (shows !== 'instrument' || category === null || symbol === null || !isTradedCategory(category))
    return '/api/events'
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
        if (isOutOfDate(newest.current, status)) void client.invalidateQueries()
        newest.current = status
        setLive({ status, isConnected: true, lastEventAt: Date.now() })
      })
      source.addEventListener('instrument', (event: MessageEvent<string>) => {
        client.setQueryData([url], JSON.parse(event.data) as MarketResponses['event'])
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
