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

/**
 * All that the page has loaded, each response kept under the question that it belongs to: what was asked of one instrument is
 * never taken for another's.
 */
const client = new QueryClient({
  defaultOptions: {
    queries: {
      // The recorder may be on this very machine: whether the browser is online says nothing about it.
      networkMode: 'always',
      // The next interval asks again, as does the return of the recorder or its database.
      retry: false,
      gcTime: 60_000,
      // A page that nothing changes on is not drawn again.
      notifyOnChangeProps: ['data', 'error', 'isPlaceholderData'],
    },
  },
})

interface Asked<Data> {
  /** The last response to this very question, also while the next one is awaited and when that fails; null before the first. */
  readonly response: Data | null
  readonly error: string | null
  /** The response is still that to the question before; only where `keepsPrevious` allows it. */
  readonly isPrevious: boolean
}

interface AskOptions {
  /** Asks again at this pace; a page in the background does not. */
  readonly everyMs?: number | undefined
  /** Shows the response to the question before until the first one to this question comes. */
  readonly keepsPrevious?: boolean
}

/** Response of the API to a request. A null `question` sends no request. */
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

/** Asks everything that is shown again: the recorder was restarted, or its database came back. */
export function askAgain(): void {
  void client.invalidateQueries()
}

/** Keeps an event under the address that it came from. */
export function keepEvent(url: string, event: MarketResponses['event']): void {
  client.setQueryData([url], event)
}

/** The newest event from an address of /api/events. */
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
  // Reads the result for the new options. The observer itself learns of a new question only after this render.
  const { data, error, isPlaceholderData } = observer.getOptimisticResult(options)
  return { response: data ?? null, error: error?.message ?? null, isPrevious: isPlaceholderData }
}

/** Asks the API. Rejects with the server's own words, or briefly for what a notice at the top tells at length. */
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

/** The address of a question. What is undefined or empty is left out, so that equal questions have equal addresses. */
export function urlOf(path: string, question: object): string {
  const fields = question as Readonly<Record<string, string | number | undefined>>
  const given = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === '' ? [] : [[name, String(value)]],
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}
