import type { Command } from 'commander'
import type { Kysely } from 'kysely'
import { planSeries, type RequestedSeries } from '../history/request.js'
import { isProven, type StreamName, streamNames } from '../market/stream.js'
import { categories, type Category, instrumentText } from '../market/category.js'
import { symbolMatcher, unmatched } from '../market/instrument.js'
import { intervalMs, seriesText } from '../market/candle.js'
import { groupBy } from '../runtime/groupBy.js'
import type { Database } from '../db/schema.js'
import { candlesOf, seriesOf } from '../db/series.js'
import type { Config } from '../config/resolve.js'
import { openStore, type OpenStore } from '../openStore.js'
import { prepareBeside, requireService } from '../prepareStore.js'
import { createLogger, type Logger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/process.js'
import { type Gap, type GapFilter, listGaps, newestGaps } from '../ledger/gaps.js'
import { rangeOutcomes } from '../ledger/wants.js'
import { knownSymbols } from '../files/export/request.js'
import { fetchMissing, missingLines, openBackfill, printSummary, summarize } from './backfillWork.js'
import { Failed } from './end.js'
import { type CommonOptions, configuredCommand, namesOption, readConfig } from './options.js'
import { tell, writeJson, writeOut } from './output.js'

interface GapsOptions extends CommonOptions {
  readonly repair?: boolean
  readonly all?: boolean
  readonly stream?: readonly StreamName[]
  readonly category?: readonly Category[]
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
      "\nExamples:\n  npx market-recorder gaps --stream fills --symbol 'BTC*'\n  npx market-recorder gaps --repair\n\nExit code of --repair: 0 when every repairable gap is filled, 1 when one is left.",
    )
    .action(runGaps)
}

async function runGaps(options: GapsOptions): Promise<void> {
  const config = await readConfig(options)
  const logger = createLogger(config.log.level === 'info' ? 'warn' : config.log.level)
  const { stream: streams, category: categories, symbol } = options
  const isSymbol = symbol && symbolMatcher(symbol)
  const filter = { ...(streams && { streams }), ...(categories && { categories }), ...(isSymbol && { isSymbol }) }
  const store = await openStore(config, logger)
  try {
    await prepareBeside(store, config, createLogger('warn'))
    const { db } = store.database
    const unknown = symbol ? unmatched(symbol, await knownSymbols(store.database)) : []
    if (unknown.length > 0) throw new Error(`no symbol matches ${unknown.join(' ')}: market.instruments lists them`)
    if (options.repair === true) {
      const open = await listGaps(db, { ...filter, verdicts: ['missing'] })
      await repairGaps(open.filter(isRepairable), { store, config, logger, isJson: options.json === true })
    } else await showGaps(db, options.all === true ? filter : { ...filter, verdicts: ['missing', 'lost'] }, options)
  } finally {
    await store.close()
  }
}

async function showGaps(db: Kysely<Database>, filter: GapFilter, options: GapsOptions): Promise<void> {
  if (options.json === true) return writeJson((await listGaps(db, filter)).toReversed())
  const gaps = await newestGaps(db, filter, maxShown)
  if (gaps.length === 0) {
    return writeOut(
      options.all === true ? 'no gaps are known\n' : 'no gap is open or lost; --all shows repaired ones, too\n',
    )
  }
  for (const [reason, group] of groupBy(gaps, (gap) => `${gap.stream}, ${gap.state}: ${gap.reason}`)) {
    const count = group[0]?.alike ?? 0
    await writeOut(`${reason} (${count}${group.some(isRepairable) ? `, ${count} can be repaired` : ''})\n`)
    for (const gap of group) await writeOut(`  ${gapText(gap)}\n`)
    if (count > group.length) await writeOut(`  and ${count - group.length} more; see market.gaps\n`)
  }
}

async function repairGaps(
  gaps: readonly Gap[],
  { store, config, logger, isJson }: { store: OpenStore; config: Config; logger: Logger; isJson: boolean },
): Promise<void> {
  const { db } = store.database
  if (gaps.length === 0) {
    if (isJson) return writeJson({ ...(await summarize(db, [], [])), gaps: 0, repaired: 0 })
    return writeOut('nothing can be repaired\n')
  }
  await requireService(store, config, logger)
  const stop = stopSignal()
  const session = await openBackfill(config, store, logger, stop.signal)
  try {
    const requested = gaps.map(requestedOf)
    const planned = await planSeries(db, requested, { again: false })
    const summary = await fetchMissing(session, db, planned, { kind: 'repair', again: false }, stop.signal)
    const wanted = requested.map(({ series, range }) => ({ series, missing: [range] }))
    const outcomes = await rangeOutcomes(db, wanted)
    const left = outcomes.filter((known) =>
      known.some(({ verdict }) => verdict === 'missing' || verdict === 'lost'),
    ).length
    const repaired = gaps.length - left
    if (isJson) await writeJson({ ...summary, gaps: gaps.length, repaired })
    else {
      const [stream = 'rows', ...others] = new Set(gaps.map((gap) => gap.stream))
      await printSummary(summary, others.length === 0 ? stream : 'rows')
    }
    for (const line of missingLines(summary)) tell(line)
    const rest = left === 0 ? '' : `; ${left} not yet, see above and npx market-recorder gaps`
    if (!isJson) await writeOut(`${repaired} of ${gaps.length} gaps repaired${rest}\n`)
    if (left > 0) throw new Failed()
  } finally {
    await session.close()
    stop.release()
  }
}

const maxShown = 20

function isRepairable({ stream, state, symbol }: Gap): boolean {
  return state === 'open' && isProven(stream) && symbol !== '*'
}

function requestedOf(gap: Gap): RequestedSeries {
  return { series: seriesOf(gap), range: gap.range, isUrgent: false, hasOpenBeginning: false }
}

function gapText(gap: Gap): string {
  const { from, to } = gap.range
  const text = (time: number) => new Date(time).toISOString().slice(0, 23)
  const candles = candlesOf(gap)
  const what =
    candles === null
      ? instrumentText(gap)
      : `${seriesText(candles)} (${Math.round((to - from) / intervalMs[candles.interval])})`
  return `${what} ${text(from)} to ${text(to)}`
}
