import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { Check } from './figures.js'
import { measureCost } from './pageCost.js'
import { openMarket } from './pageMarket.js'
import { measurePaint } from './pagePaint.js'

/** How quickly the page comes with a year of candles behind it, and what open pages cost the recording. */
export async function benchPage(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      instruments: { type: 'string', default: '4600' },
      days: { type: 'string', default: '365' },
      pages: { type: 'string', default: '20' },
      seconds: { type: 'string', default: '30' },
      rounds: { type: 'string', default: '4' },
      'cost-only': { type: 'boolean', default: false },
      chromium: { type: 'string', default: '/usr/bin/chromium' },
    },
  })
  const chromium = existsSync(values.chromium) ? values.chromium : null
  const checks: Check[] = []
  if (!values['cost-only']) {
    if (chromium === null) throw new Error(`${values.chromium} is not there; give --chromium PATH, or --cost-only`)
    const market = await openMarket({ instruments: Number(values.instruments), days: Number(values.days) })
    try {
      checks.push(...(await measurePaint(market.url, chromium)))
    } finally {
      await market.close()
    }
  }
  const [pages, rounds] = [Number(values.pages), Number(values.rounds)]
  // None: only how quickly it comes.
  if (pages > 0)
    checks.push(...(await measureCost({ pages, rounds, phaseMs: Number(values.seconds) * 1000, chromium })))
  const table = new Table({ head: ['', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}
