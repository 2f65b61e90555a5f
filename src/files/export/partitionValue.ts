import { createHash } from 'node:crypto'

/** Bytes of the longest value. File systems allow 255 for a name, of which the column's takes a part. */
const maxBytes = 200
/** A digest of so many hexadecimal digits keeps a cut value unique. */
const digestDigits = 32
/** Values that readers of such folders take for null, in any case. */
const readAsNull = /^(?:null|__hive_default_partition__)$/i

/**
 * Spells a text as the value of a partition in the name of a folder, such as `symbol=BRK%2FB`. Readers decode it as in
 * URLs. A value that is too long is cut between two characters and ends with a digest after `~`, which no other value
 * holds.
 */
export function partitionValue(text: string): string {
  const encoded = encodeText(text)
  if (readAsNull.test(text)) return hex(text.slice(0, 1)) + encoded.slice(1)
  if (encoded.length <= maxBytes) return encoded
  const digest = createHash('sha256').update(text).digest('hex').slice(0, digestDigits)
  let kept = ''
  for (const character of text) {
    const next = kept + encodeText(character)
    if (next.length > maxBytes - digestDigits - 1) break
    kept = next
  }
  return `${kept}~${digest}`
}

/** Leaves letters, digits, `-`, `_` and `.` as they are. Shells and patterns of file names give a meaning to others. */
function encodeText(text: string): string {
  return encodeURIComponent(text.toWellFormed()).replaceAll(/[!'()*~]/g, hex)
}

function hex(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
}
