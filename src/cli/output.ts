import { once } from 'node:events'
import { printable } from '../runtime/printable.js'

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
