import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Simulator, startSimulator } from '../../src/simulator/server.js'
import { ChaosDaemon } from './chaosDaemon.js'
import { type ChaosDatabase, startChaosDatabase } from './chaosDatabase.js'
import { compareGaps, type GapReport } from './compareGaps.js'
import { compareTables, type DeadTime, type Happened, type TableReport } from './compareTables.js'
import { lastingPort } from '../../src/server/embedded/server.js'
import { type ChaosEvent, eventText, planChaos, type Spacing } from './events.js'
import { type MachinePace, watchMachinePace } from './machinePace.js'
import { untilReplayed, untilSpooling } from './spooling.js'

export interface ChaosOptions {
  readonly seed: number
  readonly durationMs: number
  /** How long the database, which is empty, is not there at the beginning. Default: it is. */
  readonly awayAtStartMs?: number
  /** Default: 4 to 16 s. */
  readonly spacing?: Spacing
  /** True to wait until the candles of the last minute are final and were compared with the fills. Default true. */
  readonly waitsForMinute?: boolean
  readonly print: (line: string) => void
}

export interface ChaosReport {
  readonly events: Readonly<Record<string, number>>
  readonly tables: readonly TableReport[]
  readonly gaps: GapReport
  readonly rejectedRows: number
  /** Exit code of the daemon at its last, orderly end. */
  readonly exitCode: number | null
  readonly answers: number
  readonly damageReports: number
  /** How long after a start without the database the first answer was on the disk; null when it was there. */
  readonly spoolingAfterMs: number | null
  /** How often the daemon ended by itself, and was started again by its supervisor. */
  readonly unexpectedEnds: number
}

const settleMs = 5_000
const minuteMs = 60_000
/** A block of the service is over by then, and every circuit has been tried again. */
const calmMs = 15_000
/** A busy machine may take so long to start the daemon. */
const startsWithinMs = 120_000
/** After the end of a minute its candles are fetched and compared with the fills. */
const comparedWithinMs = 40_000

/** Runs a daemon, a service and a database, lets them fail by a plan, and compares what is stored with what was served. */
export async function runChaos({
  seed,
  durationMs,
  awayAtStartMs = 0,
  spacing,
  waitsForMinute = true,
  print,
}: ChaosOptions): Promise<ChaosReport> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-chaos-'))
  const simulator = await startSimulator({
    port: await lastingPort(),
    seed,
    scale: 'small',
    journal: true,
    latencyMs: [0, 20],
    // A real block lasts five minutes, and would leave little to see.
    limits: { blockMs: 6_000 },
  })
  const database = await startChaosDatabase(join(folder, 'postgres'))
  const logFile = join(folder, 'daemon.log')
  const daemon = await createDaemon(folder, simulator, database, logFile)
  const pace = watchMachinePace(folder)
  const deadTimes: DeadTime[] = []
  const history: Happened[] = []
  const counts: Record<string, number> = {}
  try {
    if (awayAtStartMs > 0) await database.stop()
    let startedAt = Date.now()
    daemon.start()
    const parts = { service: Promise.resolve(), daemon: Promise.resolve(), database: Promise.resolve() }
    let spoolingAfterMs: number | null = null
    if (awayAtStartMs > 0) {
      print(`the database is away for the first ${awayAtStartMs / 1000} s`)
      spoolingAfterMs = await untilSpooling(join(folder, 'data', 'spool'), startedAt + awayAtStartMs + startsWithinMs)
      print(`the first answer was on the disk after ${spoolingAfterMs} ms`)
      // On a busy machine everything begins later.
      startedAt = Math.max(startedAt, Date.now() - awayAtStartMs)
      parts.database = sleep(Math.max(0, startedAt + awayAtStartMs - Date.now())).then(() => database.start())
    }
    for (const { atMs, event } of planChaos(seed, durationMs, spacing)) {
      await sleep(Math.max(0, startedAt + atMs - Date.now()))
      print(`${((Date.now() - startedAt) / 1000).toFixed(0).padStart(4)} s  ${eventText(event)}`)
      const name = event.kind === 'service' ? (event.faults[0]?.kind ?? '') : event.kind
      counts[name] = (counts[name] ?? 0) + 1
      // The service, the daemon and the database fail independently, but each in one way at a time.
      const part = partOf(event)
      parts[part] = parts[part].then(async () => {
        const from = Date.now()
        await happen(event, { simulator, database, daemon, deadTimes, pace })
        history.push({ from, to: Date.now(), what: eventText(event) })
      })
    }
    await sleep(Math.max(0, startedAt + durationMs - Date.now()))
    await Promise.all(Object.values(parts))
    simulator.control.clearFaults()
    await database.start()
    print('the accidents are over; waiting until everything is stored')
    // Until the candles of the last minute with an accident are final, and have been compared with the fills.
    await sleep(waitsForMinute ? minuteMs - (Date.now() % minuteMs) + comparedWithinMs : calmMs)
    await untilReplayed(join(folder, 'data', 'spool'))
    const stoppedAt = Date.now()
    let exitCode = await daemon.stop()
    // On a busy machine the time of an orderly end may be over before everything is stored; the rest is on the disk.
    for (let again = 0; exitCode !== 0 && again < 3; again++) {
      print(`it ended with ${exitCode}: ${(await readFile(logFile, 'utf8')).trim().split('\n').slice(-3).join(' ')}`)
      daemon.start()
      await sleep(calmMs)
      await untilReplayed(join(folder, 'data', 'spool'))
      exitCode = await daemon.stop()
    }
    return await compare(simulator, database, deadTimes, history, {
      events: counts,
      exitCode,
      unexpectedEnds: daemon.unexpectedEnds,
      spoolingAfterMs,
      logFile,
      stoppedAt,
      settle: settleMs,
    })
  } finally {
    await daemon.kill()
    await simulator.close()
    await database.close()
    await pace.end()
    if (process.env['CHAOS_KEEP'] === undefined) await rm(folder, { recursive: true, force: true })
    else print(`kept: ${folder}`)
  }
}

function partOf({ kind }: ChaosEvent): 'service' | 'daemon' | 'database' {
  if (kind === 'service') return 'service'
  return kind === 'kill the daemon' || kind === 'stop the daemon' ? 'daemon' : 'database'
}

async function createDaemon(folder: string, simulator: Simulator, database: ChaosDatabase, logFile: string) {
  const config = join(folder, 'recorder.json')
  const settings = {
    database: { dataDir: join(folder, 'data') },
    collector: { egress: 'chaos' },
    streams: {
      instruments: { schedule: '*/15 * * * * *' },
      // Looks at tickers are not recorded, and every served response is compared with what is stored.
      tickers: { schedule: '*/5 * * * * *', watchSeconds: 0 },
      orderBooks: { everySeconds: 5, depth: 10, select: { busiest: 20 } },
      rpiOrderBooks: { everySeconds: 10, depth: 10, select: { busiest: 10 } },
      fills: { maxPollSeconds: 30 },
      candles: { types: ['market'], intervals: ['1m'], select: { busiest: 'all' } },
      positioning: { enabled: true },
    },
    serve: { enabled: false },
  }
  // JSON is YAML, too.
  await writeFile(config, JSON.stringify(settings))
  const env = { DATABASE_URL: database.url, EXCHANGE_BASE_URL: simulator.url }
  return new ChaosDaemon(['--config', config, '--allow-overload'], env, logFile)
}

interface Parts {
  readonly simulator: Simulator
  readonly database: ChaosDatabase
  readonly daemon: ChaosDaemon
  readonly deadTimes: DeadTime[]
  readonly pace: MachinePace
}

async function happen(event: ChaosEvent, { simulator, database, daemon, deadTimes, pace }: Parts): Promise<void> {
  switch (event.kind) {
    case 'service': {
      const toMs = Date.now() + event.forMs
      for (const fault of event.faults) simulator.control.addFault({ ...fault, toMs })
      return sleep(event.forMs)
    }
    case 'kill the daemon': {
      const from = Date.now()
      const slowestMs = pace.slowestMs()
      await daemon.kill()
      await sleep(event.downMs)
      daemon.start()
      deadTimes.push({ from, to: Date.now(), slowestMs })
      return
    }
    case 'stop the daemon':
      await daemon.stop()
      await sleep(event.downMs)
      daemon.start()
      return
    case 'restart the database':
      await database.stop()
      return database.start()
    case 'crash the database':
      return database.crash()
    case 'database away':
      await database.stop()
      await sleep(event.forMs)
      return database.start()
    case 'end all sessions':
      return database.endAllSessions()
    case 'lock a table':
      return database.lockTable('market.fills', event.forMs)
    case 'read-only database':
      return database.readOnly(event.forMs)
  }
}

/** The daemon looks so often for gaps that the candles show to be none, with some time for doing it. */
const dismissedWithinMs = 30_000

async function compare(
  simulator: Simulator,
  database: ChaosDatabase,
  deadTimes: readonly DeadTime[],
  history: readonly Happened[],
  run: {
    readonly events: ChaosReport['events']
    exitCode: number | null
    unexpectedEnds: number
    spoolingAfterMs: number | null
    logFile: string
    stoppedAt: number
    settle: number
  },
): Promise<ChaosReport> {
  const pool = new pg.Pool({ connectionString: database.url, max: 2 })
  // The server ends before the last connection is gone.
  pool.on('error', () => undefined)
  try {
    const journal = simulator.control.journal()
    const { rows } = await pool.query<{ count: string }>('select count(*) from recorder.rejected_row')
    return {
      events: run.events,
      tables: await compareTables(pool, journal, deadTimes, history, run.settle),
      gaps: await compareGaps(pool, simulator.world, run.stoppedAt - settleMs - dismissedWithinMs),
      rejectedRows: Number(rows[0]?.count),
      exitCode: run.exitCode,
      unexpectedEnds: run.unexpectedEnds,
      spoolingAfterMs: run.spoolingAfterMs,
      answers: journal.filter(({ delivered, data }) => delivered === 'complete' && data !== null).length,
      damageReports: (await readFile(run.logFile, 'utf8')).split('the spool is damaged').length - 1,
    }
  } finally {
    await pool.end()
  }
}

/** The report as a person reads it. */
export function chaosText({ events, tables, gaps, ...rest }: ChaosReport): string {
  const lines = [
    `accidents: ${Object.entries(events)
      .map(([kind, count]) => `${count} × ${kind}`)
      .join(', ')}`,
    `answers served whole: ${rest.answers}; rows rejected: ${rest.rejectedRows}; damage reported: ${rest.damageReports}; ended by itself: ${rest.unexpectedEnds}; exit code at the end: ${rest.exitCode}`,
    'table             served    stored  died with the process (oldest, ms)   wrong',
    ...tables.map(({ table, served, stored, diedWithTheProcess, oldestDiedMs, wrong }) =>
      [
        table.padEnd(16),
        String(served).padStart(8),
        String(stored).padStart(9),
        `${diedWithTheProcess} (${oldestDiedMs})`.padStart(23),
        String(wrong.length).padStart(20),
      ].join(' '),
    ),
    `fills lost: ${gaps.lostFills}; gaps: ${gaps.gaps}; recall ${gaps.recall}; precision ${gaps.precision} (${gaps.undecidable} adjoin a real one and cannot be told from it); false claims ${gaps.falseClaims.length}`,
    ...gaps.wrong.slice(0, 10),
    ...gaps.falseClaims.slice(0, 10),
    ...tables.flatMap(({ wrong }) => wrong.slice(0, 5)),
  ]
  return lines.join('\n')
}
