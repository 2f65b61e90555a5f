import {
  tab,
  newline,
  carriageReturn,
  space,
  quote,
  comma,
  colon,
  openingBracket,
  backslash,
  openingBrace,
  closingBrace,
} from './characters.js'

const lastAscii = 0x7f

/** Names of fields, to be found by their bytes. */
export class FieldNames {
  readonly #byLength: { readonly name: string; readonly bytes: Buffer }[][] = []

  constructor(names: Iterable<string>) {
    for (const name of names) {
      const bytes = Buffer.from(name)
      ;(this.#byLength[bytes.length] ??= []).push({ name, bytes })
    }
  }

  find(body: Buffer, start: number, end: number): string | undefined {
    const candidates = this.#byLength[end - start]
    if (candidates === undefined) return undefined
    for (const { name, bytes } of candidates) {
      let place = 0
      while (place < bytes.length && bytes[place] === body[start + place]) place++
      if (place === bytes.length) return name
    }
    return undefined
  }
}

/**
 * Of a row that is a JSON object the texts of these fields, the others being stepped over. That takes about as long as parsing it,
 * but leaves hardly anything to collect, which in a small heap takes longer than both. Undefined for all that is not a flat object
 * with plain text in these fields: a parser reads that, or says what is wrong with it.
 */
export function pickFields(
  body: Buffer,
  begin: number,
  end: number,
  names: FieldNames,
): Record<string, string> | undefined {
  let place = skipBlank(body, begin, end)
  if (body[place] !== openingBrace) return undefined
  const picked: Record<string, string> = {}
  do {
    place = skipBlank(body, place + 1, end)
    const nameEnd = endOfText(body, place, end)
    if (nameEnd < 0) return undefined
    const name = names.find(body, place + 1, nameEnd)
    place = skipBlank(body, nameEnd + 1, end)
    if (body[place] !== colon) return undefined
    place = skipBlank(body, place + 1, end)
    const first = body[place]
    if (first === quote) {
      const valueEnd = endOfText(body, place, end)
      if (valueEnd < 0) return undefined
      if (name !== undefined) picked[name] = body.toString('latin1', place + 1, valueEnd)
      place = skipBlank(body, valueEnd + 1, end)
    } else {
      if (name !== undefined || first === openingBrace || first === openingBracket) return undefined
      const start = place
      while (place < end && body[place] !== comma && body[place] !== closingBrace) place++
      if (!isJson(body.toString('latin1', start, place))) return undefined
    }
  } while (place < end && body[place] === comma)
  if (place >= end || body[place] !== closingBrace) return undefined
  return skipBlank(body, place + 1, end) === end ? picked : undefined
}

/** Where the text ends that begins with the quote here; negative where none does, or one that is not plain ASCII without escapes. */
function endOfText(body: Buffer, start: number, end: number): number {
  if (body[start] !== quote) return -1
  for (let place = start + 1; place < end; place++) {
    const byte = body[place] as number
    if (byte === quote) return place
    if (byte === backslash || byte < space || byte > lastAscii) return -1
  }
  return -1
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function skipBlank(body: Buffer, start: number, end: number): number {
  let place = start
  while (place < end) {
    const byte = body[place]
    if (byte !== space && byte !== newline && byte !== carriageReturn && byte !== tab) break
    place++
  }
  return place
}
