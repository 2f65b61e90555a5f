export interface ProgressLine {
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
