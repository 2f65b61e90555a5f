import {
  keepPreviousData,
  QueryClient,
  QueryObserver,
  type QueryObserverOptions,
  skipToken,
} from '@tanstack/query-core'
import { useEffect, useReducer, useState } from 'preact/hooks'
import type { InstrumentEvent } from '../api/contract.js'
import type { ApiPath, ResponseOf, Question } from '../api/endpoints.js'
import { ask, urlOf } from './api.js'

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

export interface Asked<Data> {
  /** The last response to this very question, also while the next one is awaited and when that fails; null before the first. */
  readonly response: Data | null
  readonly error: string | null
  /** The response is still that to the question before; only where `keepsPrevious` allows it. */
  readonly isPrevious: boolean
}

export interface AskOptions {
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
export function keepEvent(url: string, event: InstrumentEvent): void {
  client.setQueryData([url], event)
}

/** The newest event from an address of /api/events. */
export function useEvent(url: string): InstrumentEvent | null {
  return useStored<InstrumentEvent>({ queryKey: [url], queryFn: skipToken }).response
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
