/** Makes one line of a text: control characters and line ends become spaces, and a long text is cut. */
export function oneLine(text: string, maxLength = 400): string {
  // oxlint-disable-next-line no-control-regex -- this expression removes control characters
  const line = text.replace(/[\s\u0000-\u001f\u007f]+/g, ' ').trim()
  return line.length > maxLength ? `${line.slice(0, maxLength - 1)}…` : line
}
