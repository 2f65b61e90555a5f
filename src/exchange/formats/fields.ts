import { bounds } from '../../market/bounds.js'
import { oneLine } from '../../market/oneLine.js'
import { type Decimal, serviceMs, type ServiceMs } from '../../market/values.js'
import { jsonText, textOf } from '../response.js'

/** The findings about one row. */
export interface Notes {
  /** Reasons why the row cannot be understood. */
  readonly problems: string[]
  /** Optional fields that cannot be understood, by their names on the wire. The row is kept without their values. */
  readonly remarks: Map<string, string>
}

/**
 * Reads one value of a row, from the wire's spelling to the market's. A wrong required value adds a problem to the row,
 * which is then not used. A wrong optional value adds a remark and becomes null. An absent field, `null` and `""` mean
 * "not set"; some kinds have further spellings. Numbers may come as JSON strings or numbers. Fields are plain functions
 * for speed: with a schema library, reading values took half of a request's processor time.
 */
export type Field<T> = (value: unknown, name: string, notes: Notes) => T

/** Bounds of values. Genuine values are shorter, and longer ones would make a database index or a log line fail. */
const maxDigits = bounds.decimalDigits
/** Sign, digits, point, exponent, and some zeros before the digits. */
const maxDecimalLength = 2 * maxDigits
const maxTextLength = 1000
const maxKeyLength = 200

const plainDecimal = /^-?\d+(?:\.\d+)?$/
const integer = /^-?\d+$/
const scientificDecimal = /^(-?)(\d+)(?:\.(\d+))?[eE]([+-]?\d{1,3})$/
/** 10000-01-01. A larger number cannot be milliseconds since 1970. */
const endOfTimeMs = 253_402_300_800_000
const isUnset = (value: unknown) => value === undefined || value === null || value === ''

/** Returns the exact decimal without an exponent; undefined if the text is not a decimal, or has too many digits. */
function plainDecimalText(text: string): Decimal | undefined {
  if (text.length <= maxDigits && plainDecimal.test(text)) return text
  const plain = text.length > maxDecimalLength ? undefined : withoutExponent(text)
  return plain !== undefined && plain.replace(/^-?0*|\./g, '').length <= maxDigits ? plain : undefined
}

function withoutExponent(text: string): Decimal | undefined {
  if (plainDecimal.test(text)) return text
  const parts = scientificDecimal.exec(text)
  if (parts === null) return undefined
  const [, sign = '', whole = '', fraction = '', exponentText = '0'] = parts
  const exponent = Number(exponentText)
  const digits = whole + fraction
  const point = whole.length + exponent
  if (point <= 0) return `${sign}0.${'0'.repeat(-point)}${digits}`
  const padded = digits.padEnd(point, '0')
  const left = padded.slice(0, point).replace(/^0+(?=\d)/, '')
  return padded.length === point ? sign + left : `${sign}${left}.${padded.slice(point)}`
}

/** Returns false for a NUL character or half of a surrogate pair, which no text of the database can hold. */
function isStorableText(text: string): boolean {
  return text.isWellFormed() && !text.includes('\0')
}

/** Returns true if every text inside a value can be stored. */
export function isStorable(value: unknown): boolean {
  if (typeof value === 'string') return isStorableText(value)
  if (typeof value !== 'object' || value === null) return true
  return Object.entries(value).every(([key, inner]) => isStorableText(key) && isStorable(inner))
}

/** Reads a decimal that cannot be negative. */
export function readAmount(value: unknown): Decimal | undefined {
  const decimal = readDecimal(value)
  return decimal?.startsWith('-') === true && Number(decimal) < 0 ? undefined : decimal
}

export function readDecimal(value: unknown): Decimal | undefined {
  const text = typeof value === 'string' ? value : textOf(value)
  return text === undefined ? undefined : plainDecimalText(text)
}

/** Reads an integer as a column `integer` holds it. */
function readInteger(value: unknown): number | undefined {
  const number = readBigint(value)
  return number !== undefined && Math.abs(number) < 2 ** 31 ? number : undefined
}

/** Reads an integer for a column `bigint`, as far as numbers here are exact. */
function readBigint(value: unknown): number | undefined {
  const text = typeof value === 'string' ? value : textOf(value)
  if (text === undefined || !integer.test(text)) return undefined
  const number = Number(text)
  return Number.isSafeInteger(number) ? number : undefined
}

function readTime(value: unknown): ServiceMs | undefined {
  const time = readBigint(value)
  return time !== undefined && time > 0 && time < endOfTimeMs ? serviceMs(time) : undefined
}

function readText(value: unknown, maxLength: number): string | undefined {
  const text = textOf(value)
  return text !== undefined && text.length <= maxLength && isStorableText(text) ? text : undefined
}

const booleans = wordReader<boolean>([
  ['yes', true],
  ['true', true],
  ['no', false],
  ['false', false],
])

function readBoolean(value: unknown): boolean | undefined {
  return typeof value === 'string' ? booleans(value) : typeof value === 'boolean' ? value : undefined
}

/** Makes a reader of words that ignores capitalisation. */
function wordReader<T>(words: readonly (readonly [string, T])[]): (text: string) => T | undefined {
  const lowerCased = new Map(words.map(([word, meaning]) => [word.toLowerCase(), meaning]))
  // The usual capitalisation is looked up first, so that most texts need no conversion.
  const exact = new Map(words)
  return (text) => exact.get(text) ?? lowerCased.get(text.toLowerCase())
}

/** Makes a field that must have a value. */
function required<T>(what: string, read: (value: unknown) => T | undefined): Field<T> {
  return (value, name, { problems }) => {
    const result = read(value)
    if (result === undefined) problems.push(problemText(name, what, value))
    return result as T
  }
}

/** Makes a field that may lack a value. @param unset further spellings of "not set" */
function optional<T>(
  what: string,
  read: (value: unknown) => T | undefined,
  unset: readonly string[] = [],
): Field<T | null> {
  const mayBeUnset = unset.length > 0
  return (value, name, { remarks }) => {
    if (isUnset(value)) return null
    if (mayBeUnset && unset.includes(textOf(value) ?? '')) return null
    const result = read(value)
    if (result === undefined) remarks.set(name, problemText(name, what, value))
    return result ?? null
  }
}

/** Says why a value cannot be understood. */
export function problemText(name: string, what: string, value: unknown): string {
  return `${name}: ${expectedText(what, value)}`
}

export function expectedText(what: string, value: unknown): string {
  return `expected ${what}, got ${value === undefined ? 'nothing' : oneLine(jsonText(value), 80)}`
}

export const aDecimal = `a decimal number of at most ${maxDigits} digits`
export const anAmount = `${aDecimal} that is not negative`
const aTime = 'a time in milliseconds'
const anInteger = 'an integer'
const aBoolean = 'yes or no'
const aText = `a text of at most ${maxTextLength} characters`

export const requiredDecimal = required(aDecimal, readDecimal)
/** A decimal that may be -1. Where -1 means "not set", `countAmount` is used. */
export const optionalDecimal = optional(aDecimal, readDecimal)
export const requiredAmount = required(anAmount, readAmount)
export const optionalAmount = optional(anAmount, readAmount)
/** An amount that may be unset. A wrong one is a problem of its row, which is then requested again. */
export const amountOrUnset: Field<Decimal | null> = (value, name, notes) =>
  isUnset(value) ? null : requiredAmount(value, name, notes)
/** An amount where the service also spells "not set" as -1. */
export const countAmount = optional(anAmount, readAmount, ['-1'])
/** An amount that cannot be 0. The service also spells "not set" as 0 or -1. */
export const limitAmount = optional(anAmount, readAmount, ['0', '-1'])
/** For a column `integer`. A wider value would cost its whole row. */
export const optionalInteger = optional(anInteger, readInteger, ['-1'])
export const optionalBigint = optional(anInteger, readBigint, ['-1'])
export const requiredTime = required(aTime, readTime)
export const optionalTime = optional(aTime, readTime, ['0', '-1'])
export const optionalBoolean = optional(aBoolean, readBoolean)
export const optionalText = optional(aText, (value) => readText(value, maxTextLength))
export const optionalKey = optional('a short text', (value) => readText(value, maxKeyLength))
const readKey = (value: unknown) => readText(value, maxKeyLength) || undefined
export const requiredKey = required('a short text', readKey)
/** The symbol of an instrument. The ledger writes `*` for all instruments of a category. */
export const requiredSymbol = required('a short text other than "*"', (value) => {
  const symbol = readKey(value)
  return symbol === '*' ? undefined : symbol
})

/** Makes a field for one of the given words, in any capitalisation. The result is spelled as given. */
export function requiredWord<const Word extends string>(words: readonly Word[]): Field<Word> {
  return required(`one of ${words.join(', ')}`, readerOfWords(words))
}

/** Checks that a value which a row repeats from the request is the requested one. */
export function checkRepeated(name: string, got: string | null, asked: string | undefined, { problems }: Notes): void {
  if (got !== null && asked !== undefined && got !== asked) problems.push(`${name}: ${got}, but ${asked} was asked for`)
}

function readerOfWords<Word extends string>(words: readonly Word[]): (value: unknown) => Word | undefined {
  const read = wordReader(words.map((word) => [word, word] as const))
  return (value) => {
    const text = textOf(value)
    return text === undefined ? undefined : read(text)
  }
}
