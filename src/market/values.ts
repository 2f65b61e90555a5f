/** A decimal number exactly as the service sent it. Never converted to a JavaScript number. */
export type Decimal = string

/** Milliseconds since the Unix epoch, UTC. */
export type TimeMs = number

/** Fields of a row that the specification does not name, as they were sent. Empty when there are none. */
export type Extra = Readonly<Record<string, unknown>>

export const secondMs = 1000
export const minuteMs = 60 * secondMs
export const hourMs = 60 * minuteMs
export const dayMs = 24 * hourMs
