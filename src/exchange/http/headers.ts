/** What of a response's headers anybody looks at. */
const names = ['content-length', 'content-encoding', 'x-mbx-used-remain-limit', 'retry-after', 'location'] as const
type Name = (typeof names)[number]

export type HttpHeaders = { readonly [name in Name]?: string }

const namesOfLength = new Map<number, Name[]>()
for (const name of names) namesOfLength.set(name.length, [...(namesOfLength.get(name.length) ?? []), name])

/** Of these the first one counts; the others are lists. */
const onlyFirst: ReadonlySet<Name> = new Set(['content-length', 'retry-after', 'location'])

/** From names and values in turns. Names that nobody looks at are told by their length, at no cost. */
export function readHeaders(raw: readonly Buffer[]): HttpHeaders {
  const headers: { [name in Name]?: string } = {}
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const candidates = namesOfLength.get(raw[i]?.length ?? 0)
    if (candidates === undefined) continue
    const text = raw[i]?.toString('latin1').toLowerCase()
    const name = candidates.find((candidate) => candidate === text)
    if (name === undefined) continue
    const value = raw[i + 1]?.toString('latin1') ?? ''
    const before = headers[name]
    if (before === undefined) headers[name] = value
    else if (!onlyFirst.has(name)) headers[name] = `${before}, ${value}`
  }
  return headers
}
