import type { Reporter, TestCase } from 'vitest/node'

/** Prints the tests that passed at the second attempt: each is a defect, of the test or of the program. */
export class FlakyTests implements Reporter {
  readonly #flaky: TestCase[] = []

  onTestCaseResult(test: TestCase): void {
    if (test.diagnostic()?.flaky === true) this.#flaky.push(test)
  }

  onTestRunEnd(): void {
    for (const test of this.#flaky) {
      const [error] = test.result().errors ?? []
      const what = [error?.message, error?.diff].filter((text) => text !== undefined).join('\n')
      process.stdout.write(`\nFLAKY: ${test.module.relativeModuleId}, ${test.fullName}: ${what}\n`)
    }
  }
}
