/** Returns the message of an error, or the text of any other thrown value. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/**
 * Characters that control a terminal or reorder text: C0 and C1 controls except tab and line feed, separators of lines
 * and paragraphs, and bidirectional controls.
 */
// oxlint-disable-next-line no-control-regex -- it must match control characters
const harmful = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** Escapes control characters of foreign text, such as \x1b or \u202e, so that a terminal does not obey them. */
export function printable(text: string): string {
  return text.replaceAll(harmful, (character) => {
    const code = character.charCodeAt(0)
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : jsonEscape(character)
  })
}

/** Escapes control characters in the strings of JSON text. A CR, which can stand outside of strings, becomes a space. */
export function printableJson(text: string): string {
  return text.replaceAll('\r', ' ').replaceAll(harmful, jsonEscape)
}

/** Escapes control characters in every text of a value. */
export function printableValue<Value>(value: Value): Value {
  if (typeof value === 'string') return printable(value) as Value
  if (Array.isArray(value)) return value.map((inner: unknown) => printableValue(inner)) as Value
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [printable(key), printableValue(inner as unknown)]),
  ) as Value
}

function jsonEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Removes the login from an address. If the address is no URL, everything up to its last @ may be part of a login. */
export function withoutLogin(address: string): string {
  const [, scheme = '', rest = ''] = /^([a-z][a-z\d+.-]*:\/\/)?(.*)$/is.exec(address) ?? []
  const isUrl = scheme !== '' && URL.canParse(address)
  return scheme + rest.replace(isUrl ? /^[^/?#]*@/ : /^.*@/s, '')
}

// Formats of figures for people, the same in commands and on the page.

/** Formats digits in groups of three: 12,345. Does not use Intl, whose tables a recorder would keep in memory. */
export function grouped(decimal: number | string): string {
  const [whole = '', ...fraction] = String(decimal).split('.')
  return [whole.replace(/\B(?=(?:\d{3})+$)/g, ','), ...fraction].join('.')
}

/** Formats a count with its noun: 1 file, 2 files. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** Formats a size in the largest fitting unit: 120 B, 1.2 MB, 34 GB. */
export function inBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  const scaled = bytes / 1000 ** power
  return `${power > 0 && scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power] ?? ''}`
}

/** Formats a duration for people: 45 s, 12 min, 3 h, 2 days. */
export function inWords(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  if (minutes < 120) return `${minutes} min`
  const hours = Math.round(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`
}

/** Formats a line of CSV (RFC 4180) without its end. NULL is an empty field, and an empty text is "". */
export function csvLine(values: readonly (string | null)[]): string {
  return values.map(csvValue).join(',')
}

function csvValue(value: string | null): string {
  if (value === null) return ''
  return value === '' || /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}
