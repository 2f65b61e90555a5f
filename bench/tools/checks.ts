import Table from 'cli-table3'

/** A figure beside its target. */
export interface Check {
  readonly what: string
  readonly measured: string
  /** Empty for a figure without a target. */
  readonly target: string
  readonly isMet: boolean
}

/** How a number is shown. Numbers with a fraction have two decimals unless told otherwise. */
interface NumberFormat {
  readonly unit?: string
  readonly decimals?: number
  /** Shown in brackets after the number. */
  readonly detail?: string
}

export function check(what: string, measured: string | number, target: string, isMet: boolean): Check {
  return { what, measured: String(measured), target, isMet }
}

/** A figure without a target. */
export function figure(what: string, measured: string | number): Check {
  return check(what, measured, '', true)
}

export function atMost(what: string, value: number, bound: number, format: NumberFormat = {}): Check {
  return check(what, numberText(value, format), boundText('≤', bound, format), value <= bound)
}

export function atLeast(what: string, value: number, bound: number, format: NumberFormat = {}): Check {
  return check(what, numberText(value, format), boundText('≥', bound, format), value >= bound)
}

/** Checks that something was not found at all. */
export function none(what: string, count: number): Check {
  return check(what, count, '0', count === 0)
}

function numberText(value: number, { unit, decimals = 2, detail }: NumberFormat): string {
  const number = Number.isInteger(value) ? String(value) : value.toFixed(decimals)
  return [number, ...(unit === undefined ? [] : [unit]), ...(detail === undefined ? [] : [`(${detail})`])].join(' ')
}

function boundText(sign: string, bound: number, { unit }: NumberFormat): string {
  return [sign, bound, ...(unit === undefined ? [] : [unit])].join(' ')
}

/** Says whether a check is met; empty for a figure without a target. */
export function verdictOf({ target, isMet }: Check): string {
  return target === '' ? '' : isMet ? 'met' : 'MISSED'
}

/** Prints figures and targets. Returns the exit code: 0 if every target is met. */
export function printChecks(checks: readonly Check[]): number {
  const rows = checks.map((one) => [one.what, one.measured, one.target, verdictOf(one)])
  printTable(['', 'measured', 'target', ''], rows)
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}

export function printTable(head: readonly string[], rows: readonly (readonly (string | number)[])[]): void {
  const table = new Table({ head: [...head], style: { head: [], border: [] } })
  for (const row of rows) table.push([...row])
  console.log(table.toString())
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

/** Milliseconds that some work takes. */
export async function timeOf(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
