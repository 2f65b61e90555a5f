/** Why a signal of `stopSignal` is aborted. */
export class Stopped extends Error {
  /** Exit code that shells report for a program ended by the signal. */
  readonly exitCode: number

  constructor(name: NodeJS.Signals) {
    super(`stopped by ${name}`)
    this.exitCode = name === 'SIGINT' ? 130 : 143
  }
}

/**
 * A signal that aborts on the first SIGINT or SIGTERM. A second one ends the process at once: whoever presses Ctrl-C twice
 * does not want to wait for the rest. `release` gives both back to Node.
 */
export function stopSignal(): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController()
  const onSignal = (name: NodeJS.Signals) => {
    const reason = new Stopped(name)
    if (controller.signal.aborted) process.exit(reason.exitCode)
    controller.abort(reason)
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}
