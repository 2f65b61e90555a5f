/** A decimal number exactly as the service sent it. Never converted to a JavaScript number. */
export type Decimal = string

declare const clockOf: unique symbol
/** `plainTimes.d.ts` adds to it for tests, and for the page. */
// oxlint-disable-next-line no-empty-object-type -- another declaration of this interface has a member
export interface TimesOutside {}
type OfClock<Clock extends string> = number &
  ('arePlain' extends keyof TimesOutside ? { readonly [clockOf]?: Clock } : { readonly [clockOf]: Clock })

/**
 * Milliseconds since the Unix epoch by the clock of the service. Rows, ranges and everything that is judged about the
 * market have such times. No function takes one for a time of this machine: the two clocks may be hours apart.
 */
export type ServiceMs = OfClock<'service'>
/** Milliseconds since the Unix epoch by the clock of this machine, which says when a response came. */
export type MachineMs = OfClock<'machine'>
/** Milliseconds since the Unix epoch by the clock of the database, which measures leases and may veto a removal. */
export type DatabaseMs = OfClock<'database'>
/** Milliseconds since the Unix epoch in the simulator, which has one clock, and on the page, which only shows times. */
export type TimeMs = number

/** Fields of a row that the specification does not name, as they were sent. Empty when there are none. */
export type Extra = Readonly<Record<string, unknown>>

export interface ValueOfKind {
  text: string
  boolean: boolean
  integer: number
  decimal: Decimal
  /** A decimal that cannot be negative: a size, volume, turnover or share. Prices and rates may be negative. */
  amount: Decimal
  decimals: readonly Decimal[]
  time: ServiceMs
  side: 'buy' | 'sell'
}
type FieldKind = keyof ValueOfKind
/** The kind of a field's values. A question mark means that a row may lack the value. */
export type FieldType = FieldKind | `${FieldKind}?`
type ValueOf<Type extends FieldType> = Type extends `${infer Kind extends FieldKind}?`
  ? ValueOfKind[Kind] | null
  : ValueOfKind[Type & FieldKind]
/** The values of declared fields. */
export type RowFields<Fields extends Readonly<Record<string, FieldType>>> = {
  readonly [Field in keyof Fields]: ValueOf<Fields[Field]>
}

export const secondMs = 1000
export const minuteMs = 60 * secondMs
export const hourMs = 60 * minuteMs
export const dayMs = 24 * hourMs
export const secondsPerDay = dayMs / secondMs

/** Says that a number is a time of the service: it was read from a response or a row, or names a time of the market. */
export const serviceMs = (ms: number) => ms as ServiceMs

/** Takes a time of this machine for one of the service, where nothing else tells the time. It may be wrong by hours. */
export const asIfService = (time: number) => time as ServiceMs

/** Returns the time that is `ms` later by the same clock, or earlier if `ms` is negative. */
export function addMs<Time extends number>(time: Time, ms: number): Time {
  return (time + ms) as Time
}

/** Returns the earlier of two times of one clock. */
export function earlierOf<Time extends number>(a: Time, b: Time): Time {
  return a < b ? a : b
}

/** Returns the later of two times of one clock. */
export function laterOf<Time extends number>(a: Time, b: Time): Time {
  return a > b ? a : b
}

/** Returns the beginning of the minute that a time is in. */
export function minuteOf<Time extends number>(time: Time): Time {
  return (Math.floor(time / minuteMs) * minuteMs) as Time
}

/** Returns true for a day of the calendar, such as 2026-03-01. JavaScript reads 2026-02-31 as the third of March. */
export function isDay(text: string): boolean {
  const time = /^\d{4}-\d{2}-\d{2}$/.test(text) ? Date.parse(text) : Number.NaN
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text)
}

/**
 * Reads a moment; null if the text is none. Without a zone, it is in UTC, and so is a date alone. Times in PostgreSQL's
 * form are accepted too.
 */
export function parseTime(text: string): TimeMs | null {
  const [, date = '', time, zone = 'Z'] =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}\S*?)(Z|[+-]\d{2}(?::?\d{2})?)?)?$/i.exec(text) ?? []
  const fullZone = /^[+-]\d{2}$/.test(zone) ? `${zone}:00` : zone
  const moment = Date.parse(time === undefined ? date : `${date}T${time}${fullZone}`)
  return Number.isNaN(moment) || !isDay(date) ? null : moment
}

/** Returns the shortest text of a decimal, without zeros that tell nothing. Equal decimals then have equal texts. */
export function trimmed(decimal: Decimal): Decimal {
  const short = (decimal.includes('.') ? decimal.replace(/\.?0+$/, '') : decimal).replace(/^(-?)0+(?=\d)/, '$1')
  return short === '-0' ? '0' : short
}

/** Returns the number of digits after the point of a decimal. */
export function placesOf(decimal: string): number {
  const point = decimal.indexOf('.')
  return point === -1 ? 0 : decimal.length - point - 1
}

/** Returns a decimal in units of its last place, if it had `places` digits after the point. It may not have more. */
export function unitsAt(decimal: string, places: number): bigint {
  const [whole = '0', fraction = ''] = decimal.split('.')
  return BigInt(whole + fraction.padEnd(places, '0'))
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

/** Returns the smallest of any number of values. `Math.min(...values)` throws if there are more than about 100,000. */
export function smallest<Value extends number>(values: readonly Value[]): Value {
  return values.reduce((least, value) => (value < least ? value : least), Infinity as Value)
}

/** Returns the largest of any number of values. `Math.max(...values)` throws if there are more than about 100,000. */
export function largest<Value extends number>(values: readonly Value[]): Value {
  return values.reduce((most, value) => (value > most ? value : most), -Infinity as Value)
}
