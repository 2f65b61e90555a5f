import { useEffect, useState } from 'preact/hooks'

export type Parameters = Readonly<Record<string, string | number | null | undefined>>

/** Asks the API. Rejects with the server's own words. */
export async function ask<Answer>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<Answer> {
  const response = await fetch(urlOf(path, parameters), signal === undefined ? {} : { signal })
  const body = (await response.json()) as Answer & { error?: string }
  if (!response.ok) throw new Error(body.error ?? `the recorder answered ${response.status}`)
  return body
}

export function urlOf(path: string, parameters: Parameters): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === null || value === undefined || value === '' ? [] : [[name, String(value)]],
  )
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given).toString()}`
}

export interface Asked<Answer> {
  /** The last answer; kept while the next one is awaited and when it fails. */
  readonly answer: Answer | null
  readonly error: string | null
  /** The parameters that the answer is for. */
  readonly url: string | null
}

/**
 * What the API says to a question, asked again when the question or `version` changes and every `everyMs`.
 * A null question is not asked.
 */
export function useAnswer<Answer>(
  path: string,
  parameters: Parameters | null,
  version: number,
  everyMs?: number,
): Asked<Answer> {
  const url = parameters === null ? null : urlOf(path, parameters)
  const [asked, setAsked] = useState<Asked<Answer>>({ answer: null, error: null, url: null })
  useEffect(() => {
    if (url === null) return
    const abort = new AbortController()
    const load = async () => {
      try {
        const answer = await ask<Answer>(url, {}, abort.signal)
        setAsked({ answer, error: null, url })
      } catch (error) {
        if (abort.signal.aborted) return
        const message = error instanceof Error ? error.message : String(error)
        setAsked((before) => ({ ...before, error: message }))
      }
    }
    void load()
    // A page in the background asks for nothing.
    const timer = everyMs === undefined ? undefined : setInterval(() => document.hidden || void load(), everyMs)
    return () => {
      abort.abort()
      clearInterval(timer)
    }
  }, [url, version, everyMs])
  return asked
}
