import { once } from 'node:events'
import { resolve } from 'node:path'
import { printable, printableJson } from '../runtime/text.js'
import type { Recorder } from '../app.js'

let isGuarded = false

/** Ends the program if the reader of standard output has gone, as `head` does. */
function guardOutput(): void {
  if (isGuarded) return
  isGuarded = true
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
}

/** Writes to standard output, and waits for a slow reader. */
export async function writeData(text: string): Promise<void> {
  guardOutput()
  if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain')
}

/** Writes text for people to standard output, and waits. Text of others cannot control their terminal. */
export async function writeOut(text: string): Promise<void> {
  await writeData(printable(text))
}

/** Writes a line of JSON. Type and interval of a series are null where it has none, as in the views. */
export async function writeJson(value: unknown, indent = 0): Promise<void> {
  const orNull = (name: string, part: unknown) =>
    part === '' && (name === 'type' || name === 'interval') ? null : part
  await writeData(`${printableJson(JSON.stringify(value, orNull, indent))}\n`)
}

/** Prints lines for people on standard output, and does not wait. */
export function print(text: string): void {
  guardOutput()
  process.stdout.write(`${printable(text)}\n`)
}

/** Prints lines for people on standard error. */
export function tell(text: string): void {
  process.stderr.write(`${printable(text)}\n`)
}

/** Logger for short commands. It only shows warnings and errors, as lines on standard error. */
export const warnings = { info: () => undefined, warn: tell, error: tell }

interface ProgressLine {
  /** Shows progress if it is time for that. `text` is only called then. */
  show(text: () => string): void
  note(text: string): void
  end(): void
}

/** Shows progress on standard error: one changing line on a terminal, elsewhere a line every ten seconds. */
export function progressLine(): ProgressLine {
  const { stderr } = process
  const everyMs = stderr.isTTY ? 200 : 10_000
  let shownAt = performance.now()
  let isOpen = false
  const end = () => {
    if (isOpen) stderr.write('\n')
    isOpen = false
  }
  return {
    show(text) {
      const now = performance.now()
      if (now - shownAt < everyMs) return
      shownAt = now
      // Cuts the line, because a wrapped line could not be overwritten.
      stderr.write(
        stderr.isTTY ? `\r\u001b[K${printable(text()).slice(0, stderr.columns - 1)}` : `${printable(text())}\n`,
      )
      isOpen = stderr.isTTY
    },
    note(text) {
      end()
      tell(text)
    },
    end,
  }
}

/** Draws the used part of a limit as a bar of twenty cells. */
export function bar(used: number, limit: number): string {
  const cells = 20
  const filled = limit === 0 ? 0 : Math.round(Math.min(1, used / limit) * cells)
  return `${'█'.repeat(filled)}${'░'.repeat(cells - filled)}`
}

/** Returns lines for a user who has started a recorder: the page's address, and how to query the database. */
export function welcomeLines({ pageUrl, store }: Recorder, dataDir: string): string {
  const isUsual = !store.isEmbedded || resolve(dataDir) === resolve('data')
  const folder = isUsual ? '' : ` --data-dir ${/^[\w./-]+$/.test(dataDir) ? dataDir : `'${dataDir}'`}`
  return [
    `  Page  ${pageUrl ?? 'not served'}`,
    `  SQL   psql '${store.isEmbedded ? store.readUrl : withoutPassword(store.readUrl)}'`,
    `  or    npx market-recorder query${folder} "select * from market.latest_tickers limit 5"`,
  ].join('\n')
}

/** Removes the password from a database URL that the user configured. psql asks for it. */
function withoutPassword(address: string): string {
  const url = new URL(address)
  url.password = ''
  url.searchParams.delete('password')
  return url.href
}
