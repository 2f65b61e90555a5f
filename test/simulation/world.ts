import { createHash } from 'node:crypto'
import { existsSync, readdirSync } from 'node:fs'
import { createService } from '../../src/simulator/service.js'
import { specifiedPerSecond } from '../../src/market/operation.js'
import { dayMs, hourMs } from '../../src/market/values.js'
import { createRandom, mix } from '../../src/simulator/world/hash.js'
import type { DeadTime } from '../chaos/compareTables.js'
import { SimulatedDatabase } from './driver.js'
import { type Completeness, completenessOf } from './completeness.js'
import { calmMs, faultText, type PlannedFault } from './faultPlan.js'
import { applyFaults } from './faults.js'
import { judgeAtLast, judgeClaims, judgeNewFills, judgeRepairs, watchMachines } from './judgement.js'
import { createLimitsJudge } from './limitsJudge.js'
import { real, setMachineTime } from './machine.js'
import { type MarketOptions, planMarket } from './market.js'
import type { WorldServer } from './server.js'
import { ThinMarket } from './thinMarket.js'
import { watchSenders } from './sendersWatch.js'
import { SimulatedMachine, type Surroundings } from './simulatedMachine.js'
import { mayBothSend } from './unknownStandby.js'
import { VirtualTime } from './virtualTime.js'
import { planWorld, configOf, type WorldPlan } from './worldPlan.js'

export interface WorldReport {
  readonly seed: number
  /** Broken promises, in the order in which they were found. */
  readonly violations: readonly string[]
  readonly plan: WorldPlan
  /** Hash of everything that happened, for comparing runs. */
  readonly traceHash: string
  readonly simulatedMs: number
  readonly realMs: number
  readonly arrivals: number
  readonly statements: number
  readonly fills: number
  readonly gaps: number
  readonly lostFills: number
  readonly mostBatches: number
  /** Completeness of the market; only of a world of that kind. */
  readonly completeness?: Completeness
}

export interface WorldOptions {
  readonly seed: number
  readonly minutes: number
  /** Instead of those of the seed. */
  readonly faults?: readonly PlannedFault[]
  /** A market of some size with two faults an hour, instead of the seed's. It is judged by the share that is stored. */
  readonly market?: MarketOptions
  readonly onTrace?: (line: string) => void
  /** Called after each simulated hour with the progress of the world, and with faults of a market. */
  readonly onHour?: (line: string) => void
}

/** The plan of a world, from its seed, or of a market of some size. */
export function worldPlan({ seed, minutes, market }: Pick<WorldOptions, 'seed' | 'minutes' | 'market'>): WorldPlan {
  const drawn = planWorld(seed, minutes)
  return market === undefined ? drawn : planMarket(drawn, minutes, market)
}

/** Time after the last fault in which candles become final, are read again, and are compared with fills. */
const settlingMs = 180_000
/** In a market many instruments are quiet: candles are asked for within eight minutes, fills within an hour. */
const marketSettlingMs = { least: 720_000, most: 3_720_000 }
const lookEveryMs = 5_000
const compareEveryMs = 60_000
const compareMarketEveryMs = 600_000
/** Later responses may still disprove what is proven of the last moments. */
const newMs = 10_000
/** By then the recorder knows all instruments. */
const backfillAfterMs = 600_000
/** Later rows are judged at the end. */
const lookbackMs = 180_000
const stopWithinMs = 60_000

/** Runs one world from its seed: recorders, service, database and everything between them, and judges it all along. */
export async function runWorld(server: WorldServer, options: WorldOptions): Promise<WorldReport> {
  const { market } = options
  const plan = worldPlan(options)
  const faults = options.faults ?? plan.faults
  // A configuration that is refused ends the run before there is anything to clean up.
  configOf(plan, {})
  const startedMs = real.monotonicMs()
  const database = await server.createDatabase(`world_${options.seed}_${Math.floor(startedMs)}`)
  const time = new VirtualTime()
  const random = createRandom(mix(options.seed, 1))
  const hash = createHash('sha256')
  const violations: string[] = []
  let isOver = false
  const trace = (line: string) => {
    const text = `${(time.nowMs / 1000).toFixed(6)} ${line}`
    // Events after the end belong to no run's trace.
    if (!isOver) hash.update(`${text}\n`)
    options.onTrace?.(text)
  }
  const violate = (line: string) => {
    if (violations.length >= 20 || violations.some((known) => known.endsWith(line))) return
    violations.push(`${(time.nowMs / 1000).toFixed(3)} s: ${line}`)
    if (market !== undefined) options.onHour?.(`VIOLATION ${violations.at(-1)}`)
    trace(`VIOLATION ${line}`)
  }
  const onUnhandled = (reason: unknown) =>
    violate(
      `an error that nobody heard: ${reason instanceof Error ? (reason.stack ?? reason.message) : String(reason)}`,
    )
  process.on('unhandledRejection', onUnhandled)
  process.on('uncaughtException', onUnhandled)
  const service = createService(
    {
      seed: options.seed,
      journal: market === undefined,
      customInstruments: plan.instruments.map((instrument) => ({
        ...instrument,
        launchTime: plan.epochMs - plan.launchedBeforeMs,
      })),
      limits: { blockMs: 6_000, ...plan.limits },
      quirks: {
        brotli: false,
        fillsBehindMs: plan.fillsBehindMs,
        candlesBehindMs: plan.candlesBehindMs,
        ...plan.fillsHistory,
        ...plan.pages,
      },
    },
    {
      now: () => plan.epochMs + time.nowMs,
      wallClock: () => plan.epochMs + time.nowMs,
      pause: (ms) => new Promise((resolve) => void time.after(ms, resolve)),
      stalls: null,
    },
    () => undefined,
  )
  const judge = createLimitsJudge({
    perSecond: { ...specifiedPerSecond, ...plan.limits.perSecond },
    overallPerMinute: plan.limits.perMinute,
  })
  const senders = watchSenders()
  const violateUnlessUnknown = (line: string, windowMs: number) => {
    const presences = machines.map(({ presence }) => presence)
    if (mayBothSend(faults, presences, time.nowMs, windowMs)) trace(`${line}; neither can know of the other`)
    else violate(line)
  }
  let arrivals = 0
  const simulated = new SimulatedDatabase(time, plan.epochMs, server.login, database.admin)
  setMachineTime({
    now: () => plan.epochMs + Math.floor(time.nowMs),
    monotonicMs: () => time.nowMs,
    random,
    after: (ms, fire) => time.after(ms, fire),
  })
  const around: Surroundings = {
    time,
    epochMs: plan.epochMs,
    service,
    database: simulated,
    databaseName: database.name,
    configOf: (env) => configOf(plan, env),
    random,
    address: '192.0.2.1',
    jitterMs: plan.jitterMs,
    trace,
    violate,
    onDeparture(sender) {
      const problem = senders.departs(sender, time.nowMs)
      if (problem !== null) violateUnlessUnknown(problem, 0)
    },
    onArrival(operation, address, asked) {
      arrivals++
      if (Number(asked.get('startTime')) > Number(asked.get('endTime') ?? Infinity))
        violate(`${operation} was asked for time that ends before it begins: ${asked.toString()}`)
      const tooMuch = judge.arrive(operation, time.nowMs)
      if (tooMuch !== null) violateUnlessUnknown(`${tooMuch.text} from ${address}`, tooMuch.windowMs)
    },
  }
  const machines = plan.machines.map((name) => new SimulatedMachine(name, around))
  const deadTimes: DeadTime[] = []
  try {
    for (const [index, machine] of machines.entries()) time.after(index * 3_000, () => machine.start())
    applyFaults({ faults, machines, service, database: simulated, time, epochMs: plan.epochMs, trace, deadTimes })
    const endMs = options.minutes * 60_000
    const { least, most } = marketSettlingMs
    const untilMs = endMs + (market === undefined ? settlingMs : Math.max(least, Math.min(most, endMs)))
    const watch = watchMachines(machines, violate)
    const thin = (market?.tokens ?? 0) > 0 ? new ThinMarket(plan, time, database.pool) : undefined
    const everyMs = market === undefined ? compareEveryMs : compareMarketEveryMs
    for (let nextMs = lookEveryMs; nextMs <= untilMs; nextMs += lookEveryMs) {
      await time.runUntil(nextMs)
      watch.look()
      watch.judgeCalm(calmMs(faults, time.nowMs))
      if (market === undefined) {
        const to = plan.epochMs + time.nowMs
        await judgeNewFills(database.pool, service, { from: to - newMs, to }, violate)
      }
      if (nextMs === backfillAfterMs) await thin?.wantPast(plan.epochMs + nextMs)
      if (nextMs % dayMs === 0) for (const line of thin?.table(nextMs / dayMs - 1) ?? []) options.onHour?.(line)
      if (nextMs % everyMs === 0) {
        const to = plan.epochMs + time.nowMs
        await judgeClaims(database.pool, service, { from: to - everyMs - lookbackMs, to }, violate)
      }
      // A market goes on: how complete it is in the end is worth knowing all the same.
      if (violations.length > 0 && market === undefined) break
      if (nextMs % hourMs === 0)
        options.onHour?.(
          `hour ${nextMs / hourMs}: ${arrivals} requests, ${simulated.statements} statements, ` +
            `${Math.round((real.monotonicMs() - startedMs) / 1000)} s, ${Math.round(process.memoryUsage().rss / 1e6)} MB, ` +
            `${time.waiting} timers, ${descriptors()} descriptors`,
        )
    }
    let gaps = { gaps: 0, lostFills: 0 }
    let completeness: Completeness | undefined
    if (violations.length === 0 || market !== undefined) {
      watch.judgeRest()
      await judgeRepairs(database.pool, service, plan.epochMs + endMs, violate)
      const stoppedAt = plan.epochMs + time.nowMs
      let left = machines.length
      for (const machine of machines) void machine.stop().then(() => left--)
      await time.runUntil(time.nowMs + stopWithinMs, () => left === 0)
      if (left > 0) violate(`${left} recorder(s) did not stop within ${stopWithinMs / 1000} s`)
      const isServedKnown = market === undefined
      const areTickersRecorded = plan.rhythm.watchSeconds === 0
      const fullDisks = faults.filter(({ what }) => what === 'disk full')
      const lastFullDiskMs = Math.max(...fullDisks.map(({ atMs, forMs }) => plan.epochMs + atMs + forMs))
      const clockOffMs = Math.max(...machines.map(({ skewMs }) => Math.abs(skewMs)))
      const { pool } = database
      const served = { service, isServedKnown, areTickersRecorded }
      gaps = await judgeAtLast({ pool, ...served, deadTimes, stoppedAt, lastFullDiskMs, clockOffMs }, violate)
      if (market !== undefined) {
        await thin?.judge(stoppedAt, violate, (line) => options.onHour?.(line))
        // From when the recorder had its lists and had asked each for the first time.
        const counted = { from: plan.epochMs + 300_000, to: plan.epochMs + endMs }
        completeness = await completenessOf(database.pool, service, plan.instruments, counted)
      }
    }
    const { rows } = await database.pool.query<{ count: number }>('select count(*)::int as count from market.fills')
    isOver = true
    return {
      seed: options.seed,
      violations,
      plan: { ...plan, faults },
      traceHash: hash.digest('hex'),
      simulatedMs: time.nowMs,
      realMs: real.monotonicMs() - startedMs,
      arrivals,
      statements: simulated.statements,
      fills: rows[0]?.count ?? 0,
      ...gaps,
      mostBatches: watch.mostBatches(),
      ...(completeness && { completeness }),
    }
  } finally {
    for (const machine of machines) await machine.crash()
    setMachineTime(undefined)
    process.off('unhandledRejection', onUnhandled)
    process.off('uncaughtException', onUnhandled)
    await database.drop()
  }
}

/** How many files and connections are open, where the system shows it. */
function descriptors(): number | 'unknown' {
  return existsSync('/proc/self/fd') ? readdirSync('/proc/self/fd').length : 'unknown'
}

/** Describes the machines, limits and faults of a world. */
export function planText({ faults, machines, limits }: WorldPlan): string[] {
  const requests = Object.entries(limits.perSecond).map(([operation, limit]) => `${operation} ${limit}/s`)
  return [`machines: ${machines.join(', ')}; limits: ${requests.join(', ')}`, ...faults.map(faultText)]
}
