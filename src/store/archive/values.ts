/** Units of the last digit as a decimal, without zeros at the end. */
export function decimalText(units: bigint, scale: number): string {
  const sign = units < 0n ? '-' : ''
  const padded = (units < 0n ? -units : units).toString().padStart(scale + 1, '0')
  const whole = padded.slice(0, padded.length - scale)
  const fraction = padded.slice(padded.length - scale).replace(/0+$/, '')
  return fraction === '' ? `${sign}${whole}` : `${sign}${whole}.${fraction}`
}

/** Microseconds since the epoch as ISO 8601, exact. */
export function timeText(micros: bigint): string {
  const rest = ((micros % 1000n) + 1000n) % 1000n
  const iso = new Date(Number((micros - rest) / 1000n)).toISOString()
  return rest === 0n ? iso : `${iso.slice(0, -1)}${String(rest).padStart(3, '0')}Z`
}
