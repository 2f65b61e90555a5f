import { once } from 'node:events'

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
