import { type Command, Option } from 'commander'
import {
  type BackfillRequest,
  pastStreams,
  type PlannedSeries,
  planSeries,
  type RequestedSeries,
  resolveRequest,
} from '../history/request.js'
import { ConfigError } from '../config/configError.js'
import { type Config, storageOf } from '../config/resolve.js'
import { candleTypes, intervals } from '../market/candle.js'
import { streamTraits } from '../market/stream.js'
import { tradedCategories } from '../market/category.js'
import { symbolMatcher, unmatched } from '../market/instrument.js'
import { totalMs } from '../market/timeRange.js'
import { addMs, dayMs, hourMs, laterOf, secondMs, serviceMs, type ServiceMs, smallest, sum } from '../market/values.js'
import { streamText } from '../db/series.js'
import { openStore } from '../openStore.js'
import { prepareBeside, requireService } from '../prepareStore.js'
import { createLogger } from '../runtime/logger.js'
import { stopSignal } from '../runtime/process.js'
import { knownSymbols } from '../files/export/request.js'
import { cancelBackfills } from '../ledger/wants.js'
import { forecastBackfill } from './backfillForecast.js'
import {
  type Backfill,
  fetchMissing,
  gapsOfGone,
  missingLines,
  openBackfill,
  printSummary,
  timeBetween,
} from './backfillWork.js'
import { Failed } from './end.js'
import {
  acceptNewUrlOption,
  type CommonOptions,
  configuredCommand,
  moment,
  namesOption,
  readConfig,
  requireOptions,
} from './options.js'
import { tell, writeJson, writeOut } from './output.js'

interface BackfillOptions extends CommonOptions {
  readonly stream?: keyof typeof pastStreams
  readonly category?: BackfillRequest['categories']
  readonly symbol?: readonly string[]
  readonly interval?: BackfillRequest['intervals']
  readonly type?: BackfillRequest['types']
  readonly from?: ServiceMs | 'launch'
  readonly to?: ServiceMs
  readonly again?: boolean
  readonly dryRun?: boolean
  readonly cancel?: boolean
  readonly acceptNewUrl?: boolean
  readonly json?: boolean
}

const examples = `
Examples:
  npx market-recorder backfill --category SPOT --symbol 'BTC*' 'ETH*' --interval 1m --from launch
  npx market-recorder backfill --category USDT-FUTURES --symbol BTCUSDT --interval 1m 1H --type market mark \\
    --from 2025-01-01 --to 2026-01-01 --dry-run

  npx market-recorder backfill --stream fills --category USDT-FUTURES --symbol BTCUSDT --from 2026-11-01
  npx market-recorder backfill --stream funding --category USDT-FUTURES --symbol '*' --from launch

  npx market-recorder backfill --cancel --symbol 'BTC*'

Only what is missing is fetched, so running it again continues where it stopped.
Exit code: 0 when everything is there, 1 when something is still missing, or nothing of it can be fetched.`

export function backfillCommand(): Command {
  // A dry run lists the instruments, which the database holds for one service, but must not move that.
  const newUrl = acceptNewUrlOption().conflicts('dryRun')
  return configuredCommand('backfill')
    .addOption(
      new Option(
        '--stream <stream>',
        'what to fetch (default: candles); fills and funding rates reach back 90 days',
      ).choices(Object.keys(pastStreams)),
    )
    .addOption(namesOption('--category <categories...>', 'product lines', tradedCategories))
    .option('--symbol <globs...>', 'symbols, as names or globs, in any case')
    .addOption(namesOption('--interval <intervals...>', 'intervals', intervals))
    .addOption(namesOption('--type <types...>', 'types of candles (default: market)', candleTypes))
    .addOption(
      new Option(
        '--from <time>',
        'first time, of candles their opening time: ISO 8601 (UTC unless it has a zone), or launch',
      ).argParser((text) => (text === 'launch' ? text : moment(text))),
    )
    .addOption(new Option('--to <time>', 'end of the times, exclusive (default: now)').argParser(moment))
    .option('--again', 'fetch stored candles again; changes are logged as revisions')
    .option('--dry-run', 'print requests, minutes, rows and bytes, and fetch nothing')
    .option('--cancel', 'end open backfills, or those of the given stream, symbols, intervals, types and categories')
    .addOption(newUrl)
    .option('--json', 'print one JSON object at the end')
    .addHelpText('after', examples)
    .action(runBackfill)
}

async function runBackfill(options: BackfillOptions): Promise<void> {
  if (options.cancel === true) return cancel(options)
  const request = requestOf(options)
  const config = await readConfig(options)
  const logger = createLogger(config.log.level === 'info' ? 'warn' : config.log.level)
  const stop = stopSignal()
  // Without a service there is nothing to fetch, unless a recorder of this database fetches it.
  const store = await openStore(config, logger, { mayCreate: config.exchange.baseUrl !== undefined })
  const settleMs = config.streams.candles.settleMs
  let session: Backfill | undefined
  try {
    await prepareBeside(store, config, createLogger('warn'))
    await requireService(store, config, logger, { accept: options.acceptNewUrl === true })
    session = await openBackfill(config, store, logger, stop.signal)
    const { instruments, serviceNow } = await session.instruments(request.categories)
    if (request.from !== 'launch' && request.from >= serviceNow)
      throw new ConfigError([`--from lies in the future: ${new Date(request.from).toISOString()}`])
    const { series: requested, skipped } = resolveRequest(request, instruments, serviceNow, settleMs)
    for (const line of skipped) tell(`left out: ${line}`)
    const unknown = unmatched(request.symbols, await knownSymbols(store.database, request.categories))
    if (unknown.length > 0) {
      throw new Error(
        `no instrument of ${request.categories.join(', ')} matches ${unknown.join(' ')}; see the symbols with: npx market-recorder query "select category, symbol from market.instruments"`,
      )
    }
    const gone = await gapsOfGone(store.database.db, request, instruments)
    if (requested.length === 0) {
      for (const line of gone) tell(line)
      throw new Error('nothing to fetch: all that matches is not listed any more, or was left out, see above')
    }
    if (request.stream !== 'candles') warnOfReach(request, requested)
    const series = withoutRemoved(config, request, requested, serviceNow)
    if (series.every(({ range }) => range.from >= range.to)) {
      throw new Error(
        'nothing to fetch: all of the requested time is before the launch, out of reach, not over yet, or was left out, see above',
      )
    }
    const again = options.again === true
    const planned = await planSeries(store.database.db, series, { again })
    warnOfFinal(planned)
    const tellBetween = async () => {
      const between = await timeBetween(store.database.db, planned)
      if (between !== null) tell(between)
    }
    if (options.dryRun === true) {
      const { estimate, text } = await forecastBackfill(request.stream, store.database.db, config, planned, serviceNow)
      await (options.json === true ? writeJson(estimate) : writeOut(text))
      return await tellBetween()
    }
    const summary = await fetchMissing(session, store.database.db, planned, { kind: 'backfill', again }, stop.signal)
    const goesOn = stop.signal.aborted && (await session.followed()) === 'recorder'
    if (options.json === true) await writeJson(summary)
    // The recorder may still hold rows that the counts lack, so there is no summary yet.
    else if (!goesOn) await printSummary(summary, options.stream ?? 'candles')
    if (stop.signal.aborted) {
      tell(goesOn ? goesOnLine : stoppedLines(commandLine()))
    } else for (const line of missingLines(summary)) tell(line)
    await tellBetween()
    for (const line of gone) tell(line)
    if (summary.left > 0 || summary.failed.length > 0 || gone.length > 0) throw new Failed()
  } catch (error) {
    if (!stop.signal.aborted || error instanceof Failed) throw error
    tell(stoppedLines(commandLine()))
    throw new Failed()
  } finally {
    await session?.close()
    await store.close()
    stop.release()
  }
}

/** Leaves out what is older than its table keeps, and says so. Of an archive it says that rows leave for it. */
function withoutRemoved(
  config: Config,
  { stream }: BackfillRequest,
  series: readonly RequestedSeries[],
  now: ServiceMs,
): readonly RequestedSeries[] {
  const { retentionDays, isArchived } = storageOf(config)[stream]
  if (retentionDays === undefined) return series
  const keptSince = addMs(now, -retentionDays * dayMs)
  if (series.every(({ range }) => range.from >= keptSince)) return series
  const before = `everything before ${new Date(keptSince).toISOString()}`
  const because = `storage.${streamTraits[stream].options}.retentionDays is ${retentionDays}`
  if (isArchived) {
    tell(`${before} stays in the database only until it is archived, and cannot be fetched again: ${because}`)
    return series
  }
  tell(`left out: ${before}, which would be removed again: ${because}`)
  return series.map((one) => {
    const from = laterOf(one.range.from, keptSince)
    return { ...one, range: { from, to: laterOf(from, one.range.to) } }
  })
}

/** Says that rows have left for good. Nothing fetches them again. */
function warnOfFinal(planned: readonly PlannedSeries[]): void {
  // The mark of the newest fill that retention removed is a moment, which the history may bring back.
  const left = planned.filter(({ final }) => totalMs(final) > secondMs)
  if (left.length === 0) return
  const hours = sum(left.map(({ final }) => totalMs(final))) / hourMs
  tell(
    `left out: ${Math.ceil(hours)} hours of ${left.length} series, whose rows have left the database for good: archive restore brings them into another one`,
  )
}

/** Says what is out of reach or before the listed launch. */
function warnOfReach({ from }: BackfillRequest, series: readonly RequestedSeries[]): void {
  const begin = smallest(series.map(({ range }) => range.from))
  if (from !== 'launch' && from < begin)
    tell(`left out: everything before ${new Date(begin).toISOString()}, which is out of reach or before the launch`)
  const later = series.filter(({ range }) => from !== 'launch' && range.from > begin)
  if (later.length > 0) tell(`left out: what ${later.length} series may have from before their listed launch`)
}

function stoppedLines(command: string): string {
  return `stopped; continue with: ${command}\nWhat is still wanted is also fetched by market-recorder start, and by later backfills after their own; --cancel ends it.`
}

const goesOnLine =
  'the recorder on this host goes on with it; see npx market-recorder status, and end it with npx market-recorder backfill --cancel'

/** Builds the request. Throws if options are missing, and names all of them. */
function requestOf(options: BackfillOptions): BackfillRequest {
  const { stream = 'candles', type = ['market'], to } = options
  if (stream !== 'candles' && (options.interval !== undefined || options.type !== undefined))
    throw new ConfigError([`--interval and --type are for candles, not for ${stream}`])
  const { category, symbol, interval, from } = requireOptions({
    category: options.category,
    symbol: options.symbol,
    interval: options.interval ?? (stream === 'candles' ? undefined : []),
    from: options.from,
  })
  if (from !== 'launch' && to !== undefined && from >= to) throw new ConfigError(['--from must be before --to'])
  const end = to ?? serviceMs(Number.MAX_SAFE_INTEGER)
  const what = { categories: category, symbols: symbol, intervals: interval, types: type }
  return { stream: pastStreams[stream], ...what, from, to: end }
}

async function cancel({ stream, category, symbol, interval, type, ...options }: BackfillOptions): Promise<void> {
  const config = await readConfig(options)
  const store = await openStore(config, createLogger('warn'))
  try {
    await prepareBeside(store, config, createLogger('warn'))
    const cancelled = await cancelBackfills(store.database.db, {
      ...(stream && { stream: pastStreams[stream] }),
      ...(category && { categories: category }),
      ...(interval && { intervals: interval }),
      ...(type && { types: type }),
      isSymbol: symbolMatcher(symbol),
    })
    if (options.json === true) return await writeJson(cancelled)
    const [first, ...others] = cancelled
    if (first === undefined) return await writeOut('no backfill is open\n')
    await writeOut(`cancelled: ${streamText(first)}${others.length === 0 ? '' : ` and ${others.length} more`}\n`)
  } finally {
    await store.close()
  }
}

function commandLine(): string {
  const quoted = process.argv.slice(2).map((word) => (/^[\w:.,/=+-]+$/.test(word) ? word : `'${word}'`))
  return ['npx market-recorder', ...quoted].join(' ')
}
