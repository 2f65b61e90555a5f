import type { Kysely } from 'kysely'
import { egressOf, openExchange } from '../app.js'
import { ServiceClock } from '../exchange/serviceClock.js'
import type { Config } from '../config/resolve.js'
import { traitsOf } from '../db/databaseError.js'
import type { Database, WantKind } from '../db/schema.js'
import { type BackfillRequest, type PlannedSeries, planSeries, wantsOf } from '../history/request.js'
import { createEstimator, type Progress, readProgress } from '../history/progress.js'
import { type BackfillSession, openSession } from '../history/session.js'
import { unreadRanges } from '../ledger/slices.js'
import { insertWants, rangeOutcomes, type WantCounts, type WantState, wantStates } from '../ledger/wants.js'
import { type Gap, listGaps } from '../ledger/gaps.js'
import { leaseHolder } from '../lease/leaseRow.js'
import type { OpenStore } from '../openStore.js'
import { noteResponding } from '../prepareStore.js'
import { systemClock } from '../runtime/clock.js'
import type { Logger } from '../runtime/logger.js'
import { grouped, inWords } from '../runtime/text.js'
import { bar, progressLine, writeOut } from './output.js'
import { candlesOf, rowMs, type Series, streamText } from '../db/series.js'
import { claimedFrom } from '../ledger/read/coverage.js'
import { candlesIn } from '../market/candle.js'
import { type InstrumentKey, instrumentText } from '../market/category.js'
import { symbolMatcher } from '../market/instrument.js'
import { intersect, normalized, subtract, type TimeRange, union } from '../market/timeRange.js'
import { sum } from '../market/values.js'

const minLookMs = 200
/** A command that holds the lease for longer is another one, and alive. */
const commandSendsAfterMs = 5_000

const following = {
  recorder: 'the recorder on this host is doing the work; showing its progress',
  command: 'another command of this host sends, or did until now; showing the progress until this one does',
} as const

/** A session that knows what fetches the wanted rows in its place. A command does not go on with them for long. */
export interface Backfill extends BackfillSession {
  /** Resolves to null while the session fetches itself, and between two that fetch. */
  followed(): Promise<'recorder' | 'command' | null>
}

/** Opens a session that fetches wants. It ends when `signal` aborts, or when it is closed. */
export async function openBackfill(
  config: Config,
  store: OpenStore,
  logger: Logger,
  signal: AbortSignal,
): Promise<Backfill> {
  const { db } = store.database
  const egress = egressOf(config)
  const serviceClock = new ServiceClock(systemClock, logger)
  const session = await openSession({
    db,
    url: store.url,
    openClient: (right) => openExchange(right, config, logger, { serviceClock }),
    onResponse: () => noteResponding(store, config, logger),
    egress,
    folder: config.database.dataDir,
    settleMs: config.streams.candles.settleMs,
    clock: systemClock,
    serviceNow: () => serviceClock.now(),
    logger,
    signal,
  })
  return { ...session, followed: async () => (session.isOwner() ? null : leaseHolder(db, egress)) }
}

/** Fetches missing ranges and shows the progress. Resolves to a summary when all are done, or when `signal` aborts. */
export async function fetchMissing(
  session: Backfill,
  db: Kysely<Database>,
  planned: readonly PlannedSeries[],
  options: { readonly kind: WantKind; readonly again: boolean },
  signal: AbortSignal,
): Promise<Summary> {
  const open = planned.filter(({ missing }) => missing.length > 0)
  const ids = await insertWants(db, wantsOf(open, options))
  if (ids.length === 0) return summarize(db, [], [])
  // An interrupted run may have left an open want, which continues here. Its earlier counts are subtracted.
  const earlier = await wantStates(db, { ids })
  const unable = new AbortController()
  session.work().catch((error: unknown) => unable.abort(error))
  let progress = await readProgress(db, ids)
  const stream = open[0]?.series.stream ?? 'candles'
  const describe = progressDescriber(progress.left, stream === 'candles' ? stream : `minutes of ${stream}`)
  const line = progressLine()
  let tookMs = 0
  let isSaid = false
  let commandSinceMs = Infinity
  const noteOwner = async () => {
    if (session.isOwner()) isSaid = false
    if (session.isOwner() || isSaid) return
    const followed = await session.followed()
    const nowMs = systemClock.monotonicMs()
    commandSinceMs = followed === 'command' ? Math.min(commandSinceMs, nowMs) : Infinity
    // It may be this command, which a recorder has asked to make way, or one that was killed.
    if (followed === null || (followed === 'command' && nowMs - commandSinceMs < commandSendsAfterMs)) return
    line.note(following[followed])
    isSaid = true
  }
  try {
    await noteOwner()
    line.show(describe(progress))
    while (progress.wantsEnded < progress.wants && !signal.aborted) {
      unable.signal.throwIfAborted()
      // Reading the progress takes longer for a larger backfill, so the pause grows with it.
      await systemClock.sleep(Math.max(minLookMs, 10 * tookMs), signal).catch(() => undefined)
      const startedMs = systemClock.monotonicMs()
      try {
        await noteOwner()
        progress = await readProgress(db, ids)
      } catch (error) {
        // The worker waits for the database, too, and says so.
        if (!traitsOf(error).isPassing) throw error
      }
      tookMs = systemClock.monotonicMs() - startedMs
      line.show(describe(progress))
    }
  } finally {
    line.end()
  }
  // After a stop, wait until fetched rows are stored, so that the summary counts them.
  if (signal.aborted) await session.rest()
  return summarize(db, open, ids, { isStopped: signal.aborted, earlier })
}

/**
 * Returns a function that describes the progress, and measures the speed whenever it is called.
 *
 * @param unit what is fetched: `candles`, or for example `minutes of fills` for other streams
 */
function progressDescriber(total: number, unit: string): (progress: Progress) => () => string {
  const estimate = createEstimator(systemClock)
  return ({ left, reachedAt, wants, wantsEnded }) => {
    const speed = estimate(left)
    const share = total === 0 ? 1 : Math.max(0, 1 - left / total)
    return () =>
      [
        ...(process.stderr.isTTY ? [`${bar(share, 1)} ${Math.floor(share * 100)} %`] : []),
        `${grouped(total - left)} of ${grouped(total)} ${unit}`,
        speed === null ? 'waiting' : `${grouped(Math.round(speed.perSecond))}/s`,
        ...(speed === null || left === 0 ? [] : [`${inWords(speed.etaMs)} to go`]),
        ...(reachedAt === null ? [] : [`back to ${new Date(reachedAt).toISOString().slice(0, 16)}`]),
        `series ${Math.min(wants, wantsEnded + 1)} of ${wants}`,
      ].join(' · ')
  }
}

export interface Summary {
  readonly rows: number
  readonly inserted: number
  readonly updated: number
  readonly requests: number
  readonly empty: readonly NamedRange[]
  /** Ranges of sparse series for which no response shows a candle on both sides. Nothing is claimed about them. */
  readonly unanswered: readonly NamedRange[]
  readonly failed: readonly (NamedRange & { readonly reason: string })[]
  /**
   * Number of requested candles still missing or not read again, unanswered ones too; of minutes if rows have times of
   * their own.
   */
  readonly left: number
}

interface NamedRange extends TimeRange {
  readonly series: Series
}

/**
 * Summarizes the results of planned series from their wants, the coverage and the gaps.
 *
 * @param options.earlier states of the wants before this work, whose counts are subtracted
 * @param options.isStopped true when ranges that were not requested yet do not count as failed
 */
export async function summarize(
  db: Kysely<Database>,
  planned: readonly PlannedSeries[],
  ids: readonly number[],
  options: { readonly isStopped?: boolean; readonly earlier?: readonly WantState[] } = {},
): Promise<Summary> {
  const states = await wantStates(db, { ids })
  const total = (wants: readonly WantState[], count: keyof WantCounts) => sum(wants.map((want) => want[count]))
  const growthOf = (count: keyof WantCounts) => total(states, count) - total(options.earlier ?? [], count)
  const reasons = new Map(states.map(({ series, failure, problem }) => [streamText(series), failure ?? problem]))
  const outcomes = await rangeOutcomes(db, planned)
  const unread = new Map((await unreadRanges(db, ids)).map((want) => [streamText(want.series), want.unread]))
  const after = (await planSeries(db, planned, { again: false })).map((one, index) => {
    const again = intersect(normalized(planned[index]?.missing ?? []), unread.get(streamText(one.series)) ?? [])
    return { ...one, missing: union(one.missing, again) }
  })
  const empty: NamedRange[] = []
  const unanswered: NamedRange[] = []
  const failed: (NamedRange & { reason: string })[] = []
  for (const [index, { series, missing }] of planned.entries()) {
    const known = outcomes[index] ?? []
    for (const { verdict, reason, from, to } of known) {
      if (verdict === 'before the beginning') empty.push({ series, from, to })
      else if (verdict === 'unanswered') unanswered.push({ series, from, to })
      else failed.push({ series, from, to, reason: reason ?? '' })
    }
    // These ranges were never requested, or not read again: the service refused them, or the work was stopped.
    const rest = subtract(after[index]?.missing ?? [], normalized(known))
    const reason = reasons.get(streamText(series)) ?? null
    if (reason === null && options.isStopped === true) continue
    failed.push(
      ...rest
        .filter((range) => subtract([range], missing).length === 0)
        .map((range) => ({ series, ...range, reason: reason ?? 'requested, and no response proves it' })),
    )
  }
  const [requests, rows] = [growthOf('requests'), growthOf('received')]
  const [inserted, updated] = [growthOf('inserted'), growthOf('updated')]
  return { rows, inserted, updated, requests, empty, unanswered, failed, left: rowsMissing(after) }
}

/** Counts the missing candles, and the missing minutes of rows with times of their own. */
function rowsMissing(planned: readonly PlannedSeries[]): number {
  return sum(planned.map(({ series, missing }) => candlesIn({ lengthMs: rowMs(series) }, missing)))
}

const maxNamed = 20

/** Says what lies between requested rows and those recorded later: a recorder makes that a gap. Null without one. */
export async function timeBetween(db: Kysely<Database>, planned: readonly PlannedSeries[]): Promise<string | null> {
  for (const { series, range } of planned.slice(0, maxNamed)) {
    // A recorder asks for all settled rates and liquidations that the service still has.
    if (series.stream !== 'candles' && series.stream !== 'fills') return null
    const next = await claimedFrom(db, series, range.to)
    if (next === null || next <= range.to) continue
    const to = new Date(next).toISOString()
    return `not in it: ${rangeText({ series, from: range.to, to: next })}. A recorder fetches what is missing of the last 30 days, and notes the rest as a gap; --to ${to} fetches all of it`
  }
  return null
}

/** Returns a line for each instrument that left the list with a gap of what is requested: nothing asks for it. */
export async function gapsOfGone(
  db: Kysely<Database>,
  { stream, categories, symbols, intervals, types, from, to }: BackfillRequest,
  listed: readonly InstrumentKey[],
): Promise<string[]> {
  const known = new Set(listed.map(instrumentText))
  const isSymbol = symbolMatcher(symbols)
  const gaps = await listGaps(db, { verdicts: ['missing', 'lost'], streams: [stream], categories, isSymbol })
  const isMeant = ({ range, ...series }: Gap) => {
    const candles = candlesOf(series)
    const isAsked = candles === null || (intervals.includes(candles.interval) && types.includes(candles.type))
    return isAsked && series.symbol !== '*' && range.from < to && (from === 'launch' || range.to > from)
  }
  const gone = gaps.filter((gap) => !known.has(instrumentText(gap)) && isMeant(gap))
  const reasons = new Map(gone.map((gap) => [instrumentText(gap), gap.reason]))
  return [...reasons].map(([name, reason]) => `missing: ${name} has gaps and is not listed any more: ${reason}`)
}

export async function printSummary(summary: Summary, stream: string): Promise<void> {
  const { rows, inserted, updated, requests, empty, unanswered, failed, left } = summary
  const lines = [
    `${stream} received`.padEnd(24) + `${grouped(rows)} (${grouped(inserted)} new, ${grouped(updated)} changed)`,
    `requests                ${grouped(requests)}`,
    `confirmed empty         ${grouped(empty.length)}`,
    `nothing came, open      ${grouped(unanswered.length)}`,
    `ranges that failed      ${grouped(failed.length)}`,
    `${stream === 'candles' ? 'candles' : 'minutes'} left`.padEnd(24) + grouped(left),
    ...named(empty).map((text) => `empty: ${text}`),
    ...named(unanswered).map(
      (text) => `nothing came: ${text}: it is asked for again after an hour; only then it may count as empty`,
    ),
  ]
  await writeOut(`${lines.join('\n')}\n`)
}

/** Returns lines that name each failed range and its reason, `maxNamed` ranges at most. */
export function missingLines({ failed }: Summary): string[] {
  const lines = failed.slice(0, maxNamed).map((part) => `missing: ${rangeText(part)}: ${part.reason}`)
  return failed.length > maxNamed ? [...lines, `and ${failed.length - maxNamed} more; see market.gaps`] : lines
}

function named(ranges: readonly NamedRange[]): string[] {
  return ranges.slice(0, maxNamed).map(rangeText)
}

function rangeText({ series, from, to }: NamedRange): string {
  const text = (time: number) => new Date(time).toISOString().slice(0, 19).replace(/:00$/, '')
  return `${streamText(series)} ${text(from)} to ${text(to)}`
}
