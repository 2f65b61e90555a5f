const width = 76

/** The line of a text in which a character is, and a caret below it; a long line is cut around it. */
export function excerptAt(text: string, index: number): string[] {
  // By code points, as PostgreSQL counts, and not by the halves of some that JavaScript has.
  const characters = Array.from(text)
  const at = Math.max(0, Math.min(index, characters.length))
  const before = characters.slice(0, at)
  const lineBegin = before.lastIndexOf('\n') + 1
  const lineEnd = characters.indexOf('\n', at)
  const begin = Math.max(lineBegin, at - width / 2)
  const end = Math.min(lineEnd === -1 ? characters.length : lineEnd, begin + width)
  const label = `line ${before.filter((character) => character === '\n').length + 1}: `
  return [`${label}${characters.slice(begin, end).join('')}`, `${' '.repeat(label.length + at - begin)}^`]
}
