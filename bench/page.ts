import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { measureCost } from './page/cost.js'
import { withMarket } from './page/market.js'
import { measurePaint } from './page/paint.js'
import { type Check, printChecks } from './tools/checks.js'

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
  const { chromium } = values
  if (!existsSync(chromium)) throw new Error(`${chromium} is not there; give --chromium PATH`)
  const checks: Check[] = []
  if (!values['cost-only']) {
    const size = { instruments: Number(values.instruments), days: Number(values.days) }
    checks.push(...(await withMarket(size, (url) => measurePaint(url, chromium))))
  }
  const [pages, rounds, seconds] = [Number(values.pages), Number(values.rounds), Number(values.seconds)]
  // Without pages only the time until the page comes is measured.
  if (pages > 0) checks.push(...(await measureCost({ pages, rounds, phaseMs: seconds * 1000, chromium })))
  return printChecks(checks)
}
