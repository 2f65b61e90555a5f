import { constants } from 'node:os'
import { join } from 'node:path'
import { loadFills } from './archiveData.js'
import { type ArchiveBench, configure, run } from './archiveRuns.js'
import type { DaemonSample } from './daemonProcess.js'
import { startDaemonRun } from './daemonRun.js'
import type { Check } from './figures.js'

const rows = 4_000_000
/** Until then the daemon asks for what every new recorder has to ask once. */
const settleMs = 60_000
const watchedMs = 60_000

/** A daemon records at live scale, by itself and while a large day of the same database is archived as the daemon does it. */
export async function benchLive(bench: ArchiveBench): Promise<Check[]> {
  console.log(`loading ${rows} fills of a day`)
  await loadFills(bench.database.pool, '2026-01-01', rows)
  await bench.database.pool.query('vacuum analyze market.fills')
  const config = await configure(bench, 'live', `archive: { folder: '${join(bench.root, 'live')}', tables: [fills] }`)
  const daemon = await startDaemonRun(
    { BENCH_DATA_DIR: join(bench.root, 'daemon'), DATABASE_URL: bench.url, BENCH_SAMPLE_MS: '1000', LOG_LEVEL: 'warn' },
    'live',
  )
  try {
    await daemon.during(settleMs)
    const before = await during(daemon.samples, () => daemon.during(watchedMs))
    const beside = await during(daemon.samples, async () => {
      const { exitCode } = await run(bench, config, ['archive'], { priority: constants.priority.PRIORITY_LOW })
      if (exitCode !== 0) throw new Error(`archive ended with exit code ${exitCode}`)
    })
    const after = await during(daemon.samples, () => daemon.during(watchedMs))
    const ratio = (field: Counted) => (2 * beside.rate(field)) / (before.rate(field) + after.rate(field))
    const three = (field: Counted) => [before, beside, after].map((part) => part.rate(field).toFixed(2)).join(', ')
    const requests = ratio('timedRequests')
    return [
      {
        what: `live: requests a second by timetable, before, while ${rows} rows are archived (${beside.seconds.toFixed(0)} s), after`,
        measured: `${three('timedRequests')}: ${requests.toFixed(3)}`,
        target: '≥ 0.98',
        isMet: requests >= 0.98,
      },
      {
        what: 'live: polls left out a second: before, meanwhile, after',
        measured: three('skippedPolls'),
        target: '0 meanwhile',
        isMet: beside.rate('skippedPolls') === 0,
      },
      {
        what: 'live: rows stored a second: before, meanwhile, after',
        measured: `${three('rowsStored')}: ${ratio('rowsStored').toFixed(3)}`,
        target: 'none',
        isMet: true,
      },
      {
        what: 'live: seconds in which rows went to the spool, meanwhile',
        measured: `${beside.spooling}`,
        target: '0',
        isMet: beside.spooling === 0,
      },
    ]
  } finally {
    await daemon.close()
  }
}

type Counted = 'timedRequests' | 'skippedPolls' | 'rowsStored'

/** What the daemon counted while something was done. */
async function during(samples: readonly DaemonSample[], work: () => Promise<void>) {
  const start = samples.length - 1
  await work()
  const [first, last] = [samples[start], samples.at(-1)]
  if (first === undefined || last === undefined || last === first) throw new Error('the daemon gave no samples')
  const seconds = last.seconds - first.seconds
  return {
    seconds,
    spooling: samples.slice(start + 1).filter(({ isSpooling }) => isSpooling).length,
    rate: (field: Counted) => (last[field] - first[field]) / seconds,
  }
}
