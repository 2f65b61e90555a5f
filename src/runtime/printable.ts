/**
 * Characters that a terminal takes for commands or that turn the order of what is around them: C0 and C1 controls except tab and
 * line feed, separators of lines and paragraphs, and the controls of bidirectional text.
 */
// oxlint-disable-next-line no-control-regex -- control characters are what it is about
const harmful = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g

/** Text from outside as it may be shown on a terminal: what would command it is spelled out, such as \x1b or \u202e. */
export function printable(text: string): string {
  return text.replaceAll(harmful, (character) => {
    const code = character.charCodeAt(0)
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : jsonEscape(character)
  })
}

/** JSON text that says the same and holds none of these characters: in JSON they stand in strings only. */
export function printableJson(text: string): string {
  return text.replaceAll(harmful, jsonEscape)
}

/** Every text inside of a value. */
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
