import { once } from 'node:events'
import { printable } from '../runtime/text.js'
import type { Recorder } from '../app.js'

let isGuarded = false

/** Writes to standard output and waits while its reader is slower. A reader that has gone, such as `head`, ends the program. */
export async function writeOut(text: string): Promise<void> {
  if (!isGuarded) {
    isGuarded = true
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0)
      throw error
    })
  }
  if (text !== '' && !process.stdout.write(text)) await once(process.stdout, 'drain')
}

function complain(message: string): void {
  process.stderr.write(`${printable(message)}\n`)
}

/** A logger for a command that ends soon: what is worth a warning, as a line on standard error. */
export const warnings = { info: () => undefined, warn: complain, error: complain }

interface ProgressLine {
  /** `text` is called when it is time to show something. */
  show(text: () => string): void
  note(text: string): void
  end(): void
}

/** A line that is written over on a terminal, and a line every ten seconds elsewhere; on standard error. */
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
      // A line that the terminal wraps could not be written over.
      stderr.write(stderr.isTTY ? `\r\u001b[K${text().slice(0, stderr.columns - 1)}` : `${text()}\n`)
      isOpen = stderr.isTTY
    },
    note(text) {
      end()
      stderr.write(`${text}\n`)
    },
    end,
  }
}

/** How much of a limit is used, in twenty cells. */
export function bar(used: number, limit: number): string {
  const cells = 20
  const filled = limit === 0 ? 0 : Math.round(Math.min(1, used / limit) * cells)
  return `${'█'.repeat(filled)}${'░'.repeat(cells - filled)}`
}

/** Lines for who has just started a recorder: where its page is, and how to query what it records. */
export function welcomeLines({ pageUrl, store }: Recorder): string {
  return [
    `  Page  ${pageUrl ?? 'not served'}`,
    `  SQL   psql '${store.isEmbedded ? store.readUrl : withoutPassword(store.readUrl)}'`,
    '  or    npx market-recorder query "select * from market.latest_tickers limit 5"',
  ].join('\n')
}

/** The login of a database that belongs to somebody else. psql asks for its password. */
function withoutPassword(address: string): string {
  const url = new URL(address)
  url.password = ''
  url.searchParams.delete('password')
  return url.href
}
