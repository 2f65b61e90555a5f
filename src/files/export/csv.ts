/** A line of CSV (RFC 4180) without its end. NULL is nothing at all, an empty text is "". */
export function csvLine(values: readonly (string | null)[]): string {
  return values.map(csvValue).join(',')
}

function csvValue(value: string | null): string {
  if (value === null) return ''
  return value === '' || /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}
