import type { Command } from 'commander'
import { type PlannedSeries, planSeries } from '../history/request.js'
import { isProven, streamNames } from '../market/stream.js'
import { categories, instrumentText, isTradedCategory } from '../market/category.js'
import { symbolMatcher } from '../market/instrument.js'
import { intervalMs, seriesText } from '../market/candle.js'
import { groupBy } from '../market/values.js'
import { streamText } from '../db/series.js'
import type { Config } from '../config/resolve.js'
import { openStore, type OpenStore } from '../openStore.js'
import { prepareBeside, requireService } from '../prepareStore.js'
import { createLogger, type Logger } from '../runtime/logger.js'
import { printable } from '../runtime/text.js'
import { stopSignal } from '../runtime/process.js'
import { type Gap, listGaps } from '../ledger/gaps.js'
import { fetchMissing, missingLines, openBackfill, printSummary } from './backfillWork.js'
import { Failed } from './end.js'
import { type CommonOptions, configuredCommand, namesOption, readConfig } from './options.js'
import { writeOut } from './output.js'

interface GapsOptions extends CommonOptions {
  readonly repair?: boolean
  readonly all?: boolean
  readonly stream?: readonly string[]
  readonly category?: readonly string[]
  readonly symbol?: readonly string[]
  readonly json?: boolean
}

export function gapsCommand(): Command {
  return configuredCommand('gaps')
    .option('--repair', 'fetch missing rows that the service still has')
    .option('--all', 'show repaired ones, too')
    .addOption(namesOption('--stream <stream...>', 'only those of these streams', streamNames))
    .addOption(namesOption('--category <category...>', 'only those of these categories', categories))
    .option('--symbol <glob...>', 'only those of these symbols, such as BTCUSDT or BTC*')
    .option('--json', 'print one JSON array, newest first')
    .addHelpText(
      'after',
      "\nExamples:\n  market-recorder gaps --stream fills --symbol 'BTC*'\n  market-recorder gaps --repair\n\nExit code of --repair: 0 when every repairable gap is filled, 1 when one is left.",
    )
    .action(runGaps)
}

async function runGaps(options: GapsOptions): Promise<void> {
  const config = await readConfig(options)
  const logger = createLogger(config.log.level === 'info' ? 'warn' : config.log.level)
  const isWanted = wantedBy(options)
  const store = await openStore(config, logger)
  try {
    await prepareBeside(store, config, createLogger('warn'))
    const { db } = store.database
    if (options.repair === true) {
      const open = await listGaps(db, { state: 'open' })
      const isJson = options.json === true
      await repairGaps(
        open.filter((gap) => isRepairable(gap) && isWanted(gap)),
        { store, config, logger, isJson },
      )
    } else {
      const gaps = await listGaps(db, options.all === true ? {} : { exceptState: 'repaired' })
      await showGaps(gaps.filter(isWanted).toReversed(), options)
    }
  } finally {
    await store.close()
  }
}

async function showGaps(gaps: readonly Gap[], options: GapsOptions): Promise<void> {
  if (options.json === true) return writeOut(`${JSON.stringify(gaps)}\n`)
  if (gaps.length === 0) {
    return writeOut(
      options.all === true ? 'no gaps are known\n' : 'no gap is open or lost; --all shows repaired ones, too\n',
    )
  }
  for (const [reason, group] of groupBy(gaps, (gap) => `${gap.stream}, ${gap.state}: ${gap.reason}`)) {
    const canRepair = group.filter(isRepairable).length
    await writeOut(`${reason} (${group.length}${canRepair > 0 ? `, ${canRepair} can be repaired` : ''})\n`)
    for (const gap of group.slice(0, maxShown)) await writeOut(`  ${gapText(gap)}\n`)
    if (group.length > maxShown) await writeOut(`  and ${group.length - maxShown} more; see market.gaps\n`)
  }
}

async function repairGaps(
  gaps: readonly Gap[],
  { store, config, logger, isJson }: { store: OpenStore; config: Config; logger: Logger; isJson: boolean },
): Promise<void> {
  if (gaps.length === 0) return writeOut('nothing can be repaired\n')
  await requireService(store, config, logger)
  const stop = stopSignal()
  const { db } = store.database
  const session = await openBackfill(config, store, logger, stop.signal)
  try {
    const planned = await planSeries(db, gaps.map(plannedOf), { again: false })
    const summary = await fetchMissing(session, db, planned, { kind: 'repair', again: false }, stop.signal)
    const left = stillMissing(gaps, await listGaps(db, { exceptState: 'repaired' })).length
    const repaired = gaps.length - left
    if (isJson) await writeOut(`${JSON.stringify({ ...summary, gaps: gaps.length, repaired })}\n`)
    else {
      const [stream = 'rows', ...others] = new Set(gaps.map((gap) => gap.stream))
      await printSummary(summary, others.length === 0 ? stream : 'rows')
    }
    for (const line of missingLines(summary)) process.stderr.write(`${line}\n`)
    const rest = left === 0 ? '' : `; ${left} not yet, see above and market-recorder gaps`
    if (!isJson) await writeOut(`${repaired} of ${gaps.length} gaps repaired${rest}\n`)
    if (left > 0) throw new Failed()
  } finally {
    await session.close()
    stop.release()
  }
}

const maxShown = 20

function wantedBy({ stream, category, symbol }: GapsOptions): (gap: Gap) => boolean {
  const isSymbol = symbolMatcher(symbol)
  return (gap) =>
    (stream === undefined || stream.includes(gap.stream)) &&
    (category === undefined || category.includes(gap.category)) &&
    // A gap of all symbols counts for each symbol.
    (gap.symbol === '*' || isSymbol(gap.symbol))
}

function isRepairable({ stream, state, symbol }: Gap): boolean {
  return state === 'open' && isProven(stream) && symbol !== '*'
}

function plannedOf({ stream, category, symbol, type, interval, range }: Gap): PlannedSeries {
  const series = { stream, category, symbol, type, interval }
  return { series, range, missing: [range], isUrgent: false, hasOpenBeginning: false }
}

/** Returns the gaps of which some part is still a known gap. */
function stillMissing(gaps: readonly Gap[], known: readonly Gap[]): Gap[] {
  const bySeries = groupBy(known, streamText)
  return gaps.filter(({ range, ...series }) =>
    bySeries.get(streamText(series))?.some(({ range: { from, to } }) => from < range.to && to > range.from),
  )
}

function gapText({ category, symbol, type, interval, range: { from, to } }: Gap): string {
  const text = (time: number) => new Date(time).toISOString().slice(0, 23)
  const what =
    type !== null && interval !== null && isTradedCategory(category)
      ? `${seriesText({ category, symbol, type, interval })} (${Math.round((to - from) / intervalMs[interval])} candles)`
      : instrumentText({ category, symbol })
  return printable(`${what} ${text(from)} to ${text(to)}`)
}
