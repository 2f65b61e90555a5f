/** Microseconds since the epoch as ISO 8601, exact. */
export function timeText(micros: bigint): string {
  const rest = ((micros % 1000n) + 1000n) % 1000n
  const iso = new Date(Number((micros - rest) / 1000n)).toISOString()
  return rest === 0n ? iso : `${iso.slice(0, -1)}${String(rest).padStart(3, '0')}Z`
}
