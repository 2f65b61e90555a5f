import { randomBytes } from 'node:crypto'

/** At least 0, below 1: for what is spread over a time. */
export const random = (): number => Math.random()

/** So many bytes in hexadecimal: for names that nobody else has. */
export function randomName(bytes: number): string {
  return randomBytes(bytes).toString('hex')
}
