import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import type { DaemonSample } from './daemonProcess.js'
import { startDaemonRun } from './daemonRun.js'
import { trendOf } from './trend.js'

const sampleMs = 1_000
/** How long it is watched when everything is as before. */
const afterMs = 90_000

/** The database goes away for minutes at live scale, and comes back: polling, memory, and how fast what was spooled is stored. */
export async function benchOutage(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { minutes: { type: 'string', default: '10' }, before: { type: 'string', default: '3' } },
  })
  const outageMs = Number(values.minutes) * 60_000
  const beforeMs = Number(values.before) * 60_000
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-outage-'))
  const dataDir = join(folder, 'server')
  let server = await startEmbeddedPostgres({ dataDir })
  const { url } = server
  const run = await startDaemonRun(
    { BENCH_DATA_DIR: folder, DATABASE_URL: url, BENCH_SAMPLE_MS: String(sampleMs), LOG_LEVEL: 'warn' },
    'live',
  )
  try {
    // The first minute belongs to the start.
    await run.during(60_000 + beforeMs)
    const before = lastOf(run.samples, beforeMs / 1000)
    console.log(`the database goes away for ${values.minutes} minutes`)
    await server.stop()
    await run.during(outageMs)
    const during = lastOf(run.samples, outageMs / 1000)
    const spooled = during.at(-1)?.spooledBytes ?? 0
    console.log(`${(spooled / 1e6).toFixed(0)} MB are spooled; the database comes back`)
    server = await startEmbeddedPostgres({ dataDir, port: Number(new URL(url).port) })
    const back = run.samples.length
    for (let waited = 0; run.samples.at(-1)?.isSpooling !== false && waited < 900; waited++) await run.during(sampleMs)
    const caughtUp = run.samples.length
    await run.during(afterMs)
    return report(before, during, run.samples.slice(back - 1, caughtUp), run.samples.slice(caughtUp), spooled)
  } finally {
    await run.close()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

function report(
  before: readonly DaemonSample[],
  during: readonly DaemonSample[],
  back: readonly DaemonSample[],
  after: readonly DaemonSample[],
  spooledBytes: number,
): number {
  const liveRows = rate(before, 'rowsStored')
  const perSecond = (samples: readonly DaemonSample[]) => {
    const timed = rate(samples, 'timedRequests')
    return { timed, fills: rate(samples, 'requests') - timed }
  }
  const [asked, askedAway, askedAfter] = [perSecond(before), perSecond(during), perSecond(after)]
  // From the first row that is stored again.
  const first = back.findIndex(({ rowsStored }) => rowsStored > (back[0]?.rowsStored ?? 0))
  const replay = back.slice(Math.max(0, first - 1))
  const replayed = rate(replay, 'rowsStored')
  const seconds = (replay.at(-1)?.seconds ?? 0) - (replay[0]?.seconds ?? 0)
  // The half in which the spool's buffers have their size.
  const settled = during.slice(during.length >> 1)
  const memory = trendOf(settled.map((sample) => ({ x: sample.seconds / 60, y: sample.residentBytes / 1e6 })))
  const peak = (samples: readonly DaemonSample[]) =>
    Math.max(...samples.map(({ residentBytes }) => residentBytes)) / 1e6
  const isCaughtUp = back.at(-1)?.isSpooling === false
  const skipped = rate(during, 'skippedPolls')
  const checks = [
    [
      'responses a second by timetable: before, away, after',
      [asked, askedAway, askedAfter].map(({ timed }) => timed.toFixed(2)).join(', '),
      '>= 0.98 of before',
      askedAway.timed >= 0.98 * asked.timed,
    ],
    ['polls skipped a second while it was away', skipped.toFixed(2), '0', skipped === 0],
    [
      // As many as the market makes necessary, which differs from one stretch of time to the next.
      'responses a second for fills: before, away, after',
      [asked, askedAway, askedAfter].map(({ fills }) => fills.toFixed(2)).join(', '),
      '',
      true,
    ],
    ['spooled', `${(spooledBytes / 1e6).toFixed(1)} MB`, '', true],
    [
      'highest resident memory: before, away, replay',
      [before, during, back].map((part) => peak(part).toFixed(0)).join(', ') + ' MB',
      '',
      true,
    ],
    [
      'growth of memory while it was away',
      `${memory.slope.toFixed(2)} ± ${memory.uncertainty.toFixed(2)} MB/min`,
      'not above zero',
      memory.slope - memory.uncertainty <= 0,
    ],
    ['rows a second, live', liveRows.toFixed(0), '', true],
    ['rows a second, replayed', replayed.toFixed(0), '>= 10 × live', replayed >= 10 * liveRows],
    ['seconds until all was stored', isCaughtUp ? seconds.toFixed(0) : 'never', '', isCaughtUp],
  ] as const
  const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
  for (const [what, measured, wanted, ok] of checks) table.push([what, measured, wanted, ok ? 'ok' : 'MISSED'])
  console.log(table.toString())
  return checks.every(([, , , ok]) => ok) ? 0 : 1
}

function lastOf(samples: readonly DaemonSample[], seconds: number): readonly DaemonSample[] {
  const until = samples.at(-1)?.seconds ?? 0
  return samples.filter((sample) => sample.seconds > until - seconds)
}

function rate(
  samples: readonly DaemonSample[],
  field: 'requests' | 'timedRequests' | 'skippedPolls' | 'rowsStored',
): number {
  const [first, last] = [samples[0], samples.at(-1)]
  if (first === undefined || last === undefined || last === first) return 0
  return (last[field] - first[field]) / (last.seconds - first.seconds)
}
