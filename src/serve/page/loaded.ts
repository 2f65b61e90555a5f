import {
  keepPreviousData,
  QueryClient,
  QueryObserver,
  type QueryObserverOptions,
  skipToken,
} from '@tanstack/query-core'
import { useEffect, useReducer, useState } from 'preact/hooks'
import type { MarketResponses } from '../api/marketContract.js'
import type { ApiPath, ResponseOf, Question } from '../api/endpoints.js'

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

/** Repeats all visible requests after the recorder was restarted or its database came back. */
export function askAgain(): void {
  void client.invalidateQueries()
}

/** Keeps an event under the URL of its stream. */
export function keepEvent(url: string, event: MarketResponses['event']): void {
  client.setQueryData([url], event)
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
export function urlOf(path: string, question: object): string {
  const fields = question as Readonly<Record<string, string | number | undefined>>
  const given = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, String(value)]],
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}
