import { z } from 'zod'

/** A number without decimals between two bounds. */
export const whole = (min: number, max: number) =>
  z
    .int({ error: (issue) => (issue.code === 'invalid_type' ? 'must be a whole number' : undefined) })
    .min(min)
    .max(max)
