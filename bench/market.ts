import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { Check } from './figures.js'
import { type MarketRun, recordMarket } from './marketRun.js'

/**
 * The live market's size and traits with the default configuration: whether the requests go where something is, and whether a
 * kind of instrument that nobody knows takes anything from the others.
 */
export async function benchMarket(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      minutes: { type: 'string', default: '30' },
      part: { type: 'string', default: '1' },
      odd: { type: 'string', default: '500' },
      seed: { type: 'string', default: '1' },
      only: { type: 'string', default: 'plain,odd' },
    },
  })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  const minutes = Number(values.minutes)
  const market = { seed: Number(values.seed), part: Number(values.part), odd: 0 }
  const only = values.only.split(',')
  const checks: Check[] = []
  let plain: MarketRun | undefined
  if (only.includes('plain')) {
    plain = await recordMarket(market, minutes)
    describe('the market as it is', plain)
    checks.push(...plainChecks(plain))
  }
  if (only.includes('odd')) {
    const odd = await recordMarket({ ...market, odd: Number(values.odd) }, minutes)
    describe(`with ${values.odd} instruments of an unknown kind`, odd)
    checks.push(...oddChecks(odd, plain))
  }
  const table = new Table({ head: ['what', 'measured', 'target', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'met' : 'MISSED'])
  console.log(table.toString())
  return checks.every(({ isMet }) => isMet) ? 0 : 1
}

function plainChecks({ planExit, daemonExit, truth, stored, freshShare }: MarketRun): Check[] {
  const { fills, books, candles, rejected } = truth.served
  const inVain = candles.past === 0 ? 0 : candles.pastInVain / candles.past
  return [
    {
      what: 'plan and start exit',
      measured: `${planExit}, ${daemonExit}`,
      target: '0, 0',
      isMet: planExit === 0 && daemonExit === 0,
    },
    atLeast('fills requests for instruments that trade', fills.trading / fills.all, 0.9),
    atLeast('book requests answered with a book', books.withBook / books.all, 0.95),
    atLeast('looks at the status with every stream fresh', freshShare, 0.99),
    exactly('gaps claimed in candles', stored.candleGaps, 0),
    { what: 'repair requests that brought nothing', measured: percent(inVain), target: '< 1 %', isMet: inVain < 0.01 },
    exactly('requests rejected for the limits', rejected, 0),
  ]
}

function oddChecks(odd: MarketRun, plain: MarketRun | undefined): Check[] {
  const checks = [exactly('with the unknown kind: plan exits', odd.planExit, 0)]
  if (plain === undefined) return checks
  // Fills differ from run to run because the market goes on; what was captured of them is compared.
  const captured = ({ stored, truth }: MarketRun) => stored.fills / truth.fills
  return [
    ...checks,
    atLeast('others: fills captured, of those without it', captured(odd) / captured(plain), 0.95),
    atLeast('others: books, of those without it', odd.stored.books / plain.stored.books, 0.95),
    atLeast('others: candles, of those without it', odd.stored.candles / plain.stored.candles, 0.95),
  ]
}

function describe(what: string, { truth, stored, stale, lastStatus }: MarketRun): void {
  const { fills, books, candles } = truth.served
  console.log(
    [
      `${what}:`,
      `  fills: ${fills.all} requests, ${fills.trading} for instruments that trade, ${fills.odd} for the unknown kind; ${stored.fills} of ${truth.fills} captured (${percent(stored.fills / truth.fills)}), ${stored.lostFillGaps} gaps lost`,
      `  books: ${books.all} requests, ${books.withBook} with a book, ${books.odd} for the unknown kind; ${stored.books} stored`,
      `  candles: ${candles.live} requests, ${candles.odd} for the unknown kind; ${stored.candles} stored; ${candles.past} requests for the past, ${candles.pastInVain} in vain; ${stored.candleGaps} gaps`,
      `  stale: ${stale.length === 0 ? 'never' : stale.join(', ')}`,
      ...(lastStatus?.streams ?? []).map(
        ({ name, targets, quietTargets, lateTargets, leftOut }) =>
          `  ${name}: covers ${targets}, quiet ${quietTargets}, late ${lateTargets}, left out ${JSON.stringify(leftOut)}`,
      ),
    ].join('\n'),
  )
}

function atLeast(what: string, measured: number, least: number): Check {
  return { what, measured: measured.toFixed(3), target: `>= ${least}`, isMet: measured >= least }
}

function exactly(what: string, measured: number, target: number): Check {
  return { what, measured: String(measured), target: String(target), isMet: measured === target }
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}
