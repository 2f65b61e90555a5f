import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { withMarket } from './page/market.js'
import { measurePaint } from './page/paint.js'
import { printChecks } from './tools/checks.js'

/** Measures how quickly the page comes, and in how many bytes, with a year of candles behind it. */
export async function benchPage(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      instruments: { type: 'string', default: '4600' },
      days: { type: 'string', default: '365' },
      chromium: { type: 'string', default: '/usr/bin/chromium' },
    },
  })
  const { chromium } = values
  if (!existsSync(chromium)) throw new Error(`${chromium} is not there; give --chromium PATH`)
  const size = { instruments: Number(values.instruments), days: Number(values.days) }
  return printChecks(await withMarket(size, (url) => measurePaint(url, chromium)))
}
