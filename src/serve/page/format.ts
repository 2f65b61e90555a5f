import { grouped } from '../../runtime/text.js'

/** Locale of all texts. People who compare recordings see the same, whatever their browser's locale. */
const locale = 'en-GB'

// Uses US English, because British English writes m and bn instead of M and B.
const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 })
const rate = new Intl.NumberFormat(locale, { maximumFractionDigits: 1 })

export function count(value: number): string {
  return value < 10_000 ? grouped(value) : compact.format(value)
}

export function perSecond(value: number): string {
  return rate.format(value)
}

/** Formats a duration in its largest fitting unit: 120 ms, 4 s, 12 min, 3 h, 2 d. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 100) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`
  const minutes = seconds / 60
  if (minutes < 100) return `${Math.round(minutes)} min`
  const hours = minutes / 60
  return hours < 48 ? `${Math.round(hours)} h` : `${Math.round(hours / 24)} d`
}

export function clockTime(ms: number): string {
  return new Date(ms).toISOString().slice(11, 19)
}

export function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}

/** Formats a time as 2026-11-20 14:03:27, with milliseconds if they are not zero. */
export function moment(ms: number): string {
  const text = new Date(ms).toISOString()
  return `${text.slice(0, 10)} ${ms % 1000 === 0 ? text.slice(11, 19) : text.slice(11, 23)}`
}

/** Formats a decimal with groups of three digits. It is not rounded. */
export function decimal(text: string): string {
  return grouped(text).replace('-', '−')
}

/** Formats a price with at most five decimals after its zeros. The index price has sixteen. */
export function price(text: string): string {
  return decimal(text.replace(/^(\d+(?:\.0*\d{0,5})?).*$/, '$1'))
}

/** Converts a decimal to a number, for drawings and inexact figures. */
export function approximate(text: string): number {
  return Number.parseFloat(text)
}

export function compactDecimal(text: string): string {
  return compact.format(approximate(text))
}

/** Formats a fraction as a percentage with a sign, such as +0.73 %. */
export function percent(text: string, digits = 2): string {
  const value = approximate(text) * 100
  return `${value > 0 ? '+' : value < 0 ? '−' : ''}${Math.abs(value).toFixed(digits)} %`
}

/** Names the data of a series, such as "SPOT · fills" or "USDT-FUTURES · 1m mark candles". */
export function seriesText(category: string, stream: string, type?: string | null, interval?: string | null): string {
  const ofCandles = type == null ? '' : `${interval ?? ''} ${type === 'market' ? '' : `${type} `}`
  return `${category} · ${ofCandles}${stream.replaceAll('_', ' ')}`
}

/** Returns the decimals of an axis of spreads: more if all of them are so close that two decimals hardly differ. */
export function spreadDigits(values: readonly number[]): number {
  const range = Math.max(...values) - Math.min(...values)
  return range > 0 && range < 0.05 ? 4 : 2
}
