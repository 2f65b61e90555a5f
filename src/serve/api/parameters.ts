import type { z } from 'zod'
import { BadRequest } from './badRequest.js'

/** Parameters as a route wants them. Throws a `BadRequest` with one line that names every problem. */
export function readParameters<Query extends z.ZodType>(
  query: Query,
  given: Readonly<Record<string, string>>,
): z.output<Query> {
  const result = query.safeParse(given)
  if (result.success) return result.data
  throw new BadRequest(result.error.issues.map((issue) => describe(issue, given)).join('; '))
}

function describe(issue: z.core.$ZodIssue, given: Readonly<Record<string, string>>): string {
  const name = issue.path.join('.')
  switch (issue.code) {
    case 'unrecognized_keys':
      return `${issue.keys.join(', ')}: no such parameter; see /api`
    case 'invalid_value':
      return `${name}: ${name in given ? 'must be' : 'is missing; give'} one of ${issue.values.map(String).join(', ')}`
    case 'too_big':
      return `${name}: must be at most ${String(issue.maximum)}${issue.origin === 'string' ? ' characters' : ''}`
    case 'too_small':
      return `${name}: must be at least ${String(issue.minimum)}${issue.origin === 'string' ? ' character' : ''}`
    case 'invalid_type':
      if (!(name in given)) return `${name}: is missing`
      return `${name}: must be a whole number`
    default:
      return `${name}: ${issue.message}`
  }
}
