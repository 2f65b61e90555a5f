import type { z } from 'zod'

/** Returns what a value has to be, by an issue of zod: the schema's own text where it has one. */
export function requirement(issue: z.core.$ZodIssue): string {
  if (issue.message.startsWith('must')) return issue.message
  switch (issue.code) {
    case 'invalid_type':
      return `must be ${typeNames[issue.expected] ?? issue.expected}`
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return issue.origin === 'array' || issue.origin === 'string'
        ? 'must not be empty'
        : `must be at least ${issue.minimum}`
    case 'too_big':
      return issue.origin === 'string' ? `must not be longer than ${issue.maximum}` : `must be at most ${issue.maximum}`
    case 'invalid_union':
      return `must be ${unionRequirements(issue.errors)}`
    default:
      return issue.message
  }
}

function unionRequirements(branches: readonly (readonly z.core.$ZodIssue[])[]): string {
  const parts = branches.flatMap((issues) => issues.slice(0, 1).map((issue) => requirement(issue)))
  return parts.map((part) => part.replace(/^must be (one of )?/, '')).join(', or ')
}

const typeNames: Readonly<Record<string, string>> = {
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
  string: 'text',
  array: 'a list',
  object: 'a group of options',
}
