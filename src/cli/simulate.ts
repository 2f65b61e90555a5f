import { Command, InvalidArgumentError, Option } from 'commander'
import { stopSignal } from '../runtime/process.js'
import { type Fault, faultKinds, faultSchema } from '../simulator/faults.js'
import { startSimulator } from '../simulator/server.js'
import { type Quirks, quirksSchema } from '../simulator/world/quirks.js'
import { type Scale, scales } from '../simulator/world/catalogue.js'
import { wholeNumber } from './options.js'
import { sleepUnlessStopped } from './end.js'
import { messageOf } from '../runtime/text.js'
import { print, tell } from './output.js'
import Table from 'cli-table3'
import type { z } from 'zod'
import { operations } from '../market/operation.js'
import type { TimeMs } from '../market/values.js'
import type { Report } from '../simulator/limits.js'

interface SimulateOptions {
  readonly port: number
  readonly host: string
  readonly seed: number
  readonly scale: Scale
  readonly fault: readonly Fault[]
  readonly quirk: Partial<Quirks>
  readonly limitFactor: number
  readonly journal?: boolean
  readonly latency?: readonly [number, number]
}

const examples = `
Examples:
  $ npx market-recorder simulate --port 8100 --scale live
  $ npx market-recorder simulate --port 8100 --fault tornBody:probability=0.01 --fault down:after=20000,for=5000
  $ npx market-recorder simulate --port 8100 --quirk dailyOpenAt16Utc=false --quirk rpiBookAsStrings

It prints its URL as one line and runs until it is interrupted; then prints a summary of the requests it received.`

export function simulateCommand(): Command {
  return new Command('simulate')
    .requiredOption('--port <number>', 'port to listen on; 0 takes any free one', wholeNumber(0, 65_535))
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--seed <number>', 'the same seed gives the same market', wholeNumber(0, 999_999_999), 1)
    .addOption(new Option('--scale <size>', 'number of instruments').choices(scales).default('small'))
    .addOption(
      new Option('--fault <kind[:name=value,...]>', 'inject a fault; may be repeated')
        .argParser(collectFault)
        .default([], 'none'),
    )
    .addOption(
      new Option('--quirk <name[=value]>', 'switch an observed quirk on or off; may be repeated')
        .argParser(collectQuirk)
        .default({}, 'as observed'),
    )
    .option('--limit-factor <number>', 'multiplies all request limits', positive, 1)
    .option('--latency <min-max>', 'milliseconds a request travels before it is counted, such as 0-60', latency)
    .option('--journal', 'keep every served response in memory, to be read from /simulator/journal')
    .addHelpText('after', examples)
    .action(simulate)
}

async function simulate(options: SimulateOptions): Promise<void> {
  const stop = stopSignal()
  try {
    const simulator = await startSimulator({
      port: options.port,
      host: options.host,
      seed: options.seed,
      scale: options.scale,
      faults: options.fault,
      quirks: options.quirk,
      limits: { factor: options.limitFactor },
      journal: options.journal ?? false,
      ...(options.latency ? { latencyMs: options.latency } : {}),
    })
    print(simulator.url)
    tell(`record it with: EXCHANGE_BASE_URL=${simulator.url} npx market-recorder start`)
    await sleepUnlessStopped(undefined, stop.signal)
    await simulator.close()
    print(reportTable(simulator.control.report()))
  } finally {
    stop.release()
  }
}

function positive(text: string): number {
  const number = Number(text)
  if (!(number > 0 && Number.isFinite(number)))
    throw new InvalidArgumentError('It must be a number above 0, such as 0.5.')
  return number
}

function latency(text: string): readonly [number, number] {
  const match = /^(\d{1,5})-(\d{1,5})$/.exec(text)
  const range = [Number(match?.[1]), Number(match?.[2])] as const
  if (!match || range[0] > range[1])
    throw new InvalidArgumentError('It must be two milliseconds, the smaller first: 0-60.')
  return range
}

function collectFault(text: string, faults: readonly Fault[]): readonly Fault[] {
  return [...faults, orInvalid(() => parseFault(text, Date.now()))]
}

function collectQuirk(text: string, quirks: Partial<Quirks>): Partial<Quirks> {
  return { ...quirks, ...orInvalid(() => parseQuirk(text)) }
}

/** Converts an error of `parse` into one that commander prints for a wrong argument. */
function orInvalid<Value>(parse: () => Value): Value {
  try {
    return parse()
  } catch (error) {
    throw new InvalidArgumentError(messageOf(error))
  }
}

/**
 * Parses a fault from the command line: `KIND[:name=value,...]`, with several operations joined by `+`. `after` is in
 * milliseconds from now, and `for` in milliseconds from there. `fromMs` and `toMs` are moments of the service's clock.
 * Throws an Error that says in one line what is wrong.
 */
export function parseFault(text: string, now: TimeMs): Fault {
  const [kind = '', ...rest] = text.split(':')
  if (!faultKinds.some((known) => known === kind)) throw new Error(unknown('fault', kind, faultKinds))
  const fields: Record<string, unknown> = { kind }
  for (const pair of rest.join(':').split(',').filter(Boolean)) {
    const [name, value] = splitOnce(pair)
    if (value === undefined) throw new Error(`"${pair}" must be name=value, such as probability=0.1.`)
    fields[name] = name === 'operations' ? value.split('+') : textFields.has(name) ? value : jsonOrText(value)
  }
  const { after, for: duration, ...fault } = fields
  if (typeof after === 'number') fault['fromMs'] = now + after
  if (typeof duration === 'number') fault['toMs'] = now + (typeof after === 'number' ? after : 0) + duration
  const parsed = faultSchema.safeParse(kind === 'latency' ? { minMs: 0, ...fault } : fault)
  if (!parsed.success) throw new Error(`${kind}: ${oneLine(parsed.error)}`)
  return parsed.data
}

/** Fields whose values are text even if they look like a number. */
const textFields = new Set(['msg', 'body'])

/** Parses a quirk from the command line: `NAME` switches it on, `NAME=VALUE` sets it to JSON or a word. */
export function parseQuirk(text: string): Partial<Quirks> {
  const [name, value = 'true'] = splitOnce(text)
  const names = Object.keys(quirksSchema.shape)
  if (!names.includes(name)) throw new Error(unknown('quirk', name, names))
  const parsed = quirksSchema.partial().safeParse({ [name]: jsonOrText(value) })
  if (!parsed.success) throw new Error(oneLine(parsed.error))
  // Only the named quirk is returned, because the schema has filled in the others.
  return Object.fromEntries(Object.entries(parsed.data).filter(([key]) => key === name))
}

function splitOnce(text: string): readonly [string, string?] {
  const index = text.indexOf('=')
  return index === -1 ? [text] : [text.slice(0, index), text.slice(index + 1)]
}

function jsonOrText(value: string): unknown {
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}

function unknown(what: string, name: string, known: readonly string[]): string {
  return `There is no ${what} "${name}". Known are ${known.join(', ')}.`
}

function oneLine(error: z.ZodError): string {
  return error.issues.map((issue) => `${issue.path.join('.') || 'value'}: ${issue.message}`).join('; ')
}

/** Returns the report as a table for people: a row for each operation that was used, and one for all together. */
export function reportTable(report: Report): string {
  const table = new Table({
    head: ['source', 'operation', 'requests', 'rejected', 'highest/s', 'highest/min', 'blocks'],
    colAligns: ['left', 'left', 'right', 'right', 'right', 'right', 'right'],
    style: { head: [], border: [] },
  })
  for (const [source, { operations: used, overall }] of Object.entries(report)) {
    for (const operation of operations) {
      const { requests, rejected, highestPerSecond } = used[operation]
      if (requests > 0) table.push([source, operation, requests, rejected, highestPerSecond, '', ''])
    }
    const { requests, rejected, highestPerSecond, highestPerMinute, blocks } = overall
    table.push([source, 'all', requests, rejected, highestPerSecond, highestPerMinute, blocks])
  }
  return table.toString()
}
