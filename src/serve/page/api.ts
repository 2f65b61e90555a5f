import type { ApiPath, ResponseOf, Question } from '../api/endpoints.js'

/** Asks the API. Rejects with the server's own words. */
export async function ask<Path extends ApiPath>(
  path: Path,
  question: Question<Path>,
  signal?: AbortSignal,
): Promise<ResponseOf<Path>> {
  const response = await fetch(urlOf(path, question), signal === undefined ? {} : { signal })
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
