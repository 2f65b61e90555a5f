/** Text for one line of a log or a table: control characters and line ends become spaces, and what is too long is cut. */
export function oneLine(text: string, maxLength = 400): string {
  // oxlint-disable-next-line no-control-regex -- control characters are what it removes
  const line = text.replace(/[\s\u0000-\u001f\u007f]+/g, ' ').trim()
  return line.length > maxLength ? `${line.slice(0, maxLength - 1)}…` : line
}
