export const exitCodes = { done: 0, failed: 1, wrongUsage: 2 } as const

/** A failure that was already told: the program only has to end with its exit code. */
export class Failed extends Error {
  constructor(readonly exitCode: number = exitCodes.failed) {
    super('the command failed')
  }
}
