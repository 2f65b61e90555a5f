// Figures for a person, the same in commands and on the page.

/** Formats digits in groups of three: 12,345. Does not use Intl, whose tables a recorder would keep in memory. */
export function grouped(count: number): string {
  const [whole = '', ...fraction] = String(count).split('.')
  return [whole.replace(/\B(?=(?:\d{3})+$)/g, ','), ...fraction].join('.')
}

/** Formats a size in the largest fitting unit: 120 B, 1.2 MB, 34 GB. */
export function inBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB']
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3))
  const scaled = bytes / 1000 ** power
  return `${power > 0 && scaled < 10 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power] ?? ''}`
}

/** A duration for a person: 45 s, 12 min, 3 h, 2 days. */
export function inWords(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.round(seconds / 60)
  if (minutes < 120) return `${minutes} min`
  const hours = Math.round(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.round(hours / 24)} days`
}
