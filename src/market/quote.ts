import { oneLine } from './oneLine.js'

/** Makes one line of the start of a foreign text, for a message. */
export type Quote = (text: string, maxLength: number) => string

/** Returns a function that leaves secrets out of what it quotes: a server, or a proxy, may echo what it was sent. */
export function quoteWithout(secrets: readonly string[]): Quote {
  const longestFirst = secrets.filter((secret) => secret !== '').toSorted((a, b) => b.length - a.length)
  const pattern = longestFirst.length === 0 ? null : new RegExp(longestFirst.map(spelled).join('|'), 'giu')
  return (text, maxLength) => {
    // A secret that this cuts is far behind what is quoted.
    const start = text.slice(0, 100 * maxLength)
    return oneLine(pattern === null ? start : start.replace(pattern, '…'), maxLength)
  }
}

/** Returns the expression of a text as it is, and as URLs, HTML and JSON spell it. */
function spelled(text: string): string {
  return text.replace(/[^a-z\d]/giu, (character) => {
    const literal = String.raw`\u{${character.codePointAt(0)?.toString(16) ?? ''}}`
    const encoded = Buffer.from(character).toString('hex').replace(/../g, '(?:%|&#x25;)(?:25)*$&')
    return String.raw`(?:\\?${literal}|${encoded}|\+|&#?\w+;|\\u[\da-f]{4})`
  })
}
