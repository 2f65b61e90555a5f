export const exitCodes = { done: 0, failed: 1, wrongUsage: 2 } as const

/** A failure that was already reported. The program only has to end with its exit code. */
export class Failed extends Error {
  constructor(readonly exitCode: number = exitCodes.failed) {
    super('the command failed')
  }
}

/** A failure at a position in the input. The lines of `excerpt` follow the message. */
export class FailedAt extends Error {
  constructor(
    message: string,
    readonly excerpt: readonly string[],
    options: ErrorOptions,
  ) {
    super(message, options)
  }
}

/** Returns the error of a resumable command. After a stop, prints advice and returns `Failed` instead. */
export function failedOrStopped(error: unknown, stop: AbortSignal): unknown {
  if (!stop.aborted) return error
  process.stderr.write('stopped: the same command goes on from here\n')
  return new Failed()
}
