/** Lines of one error. Who has more has given the wrong file, or corrects these first. */
const maxProblems = 50

/** A configuration that cannot be used. `problems` are complete lines, each saying what to do; `message` joins them. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[], options?: ErrorOptions) {
    super(problems.join('\n'), options)
    this.problems = problems
  }
}

/** Describes the first of the mistakes, and says how many more there are: each takes its time to describe. */
export function problemsOf<Mistake>(
  mistakes: readonly Mistake[],
  describe: (mistake: Mistake) => string,
): readonly string[] {
  const problems = mistakes.slice(0, maxProblems).map((mistake) => describe(mistake))
  const left = mistakes.length - problems.length
  return left === 0 ? problems : [...problems, `and ${left} more problems; correct these first`]
}
