import { randomBytes } from 'node:crypto'

/** Returns a number of at least 0 and below 1, to spread events over time. */
export const random = (): number => Math.random()

/** Returns `bytes` random bytes in hexadecimal, for unique names. */
export function randomName(bytes: number): string {
  return randomBytes(bytes).toString('hex')
}
