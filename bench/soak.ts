import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startDaemonRun } from './daemonRun.js'
import { trendOf } from './trend.js'

/** Records at live scale for hours, and tells whether the daemon's memory grows, and the lag of its event loop. */
export async function benchSoak(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { minutes: { type: 'string', default: '60' }, tickers: { type: 'string', default: '*/15 * * * * *' } },
  })
  const minutes = Number(values.minutes)
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-soak-'))
  const run = await startDaemonRun({ BENCH_DATA_DIR: folder, BENCH_TICKERS: values.tickers }, 'live')
  try {
    for (let minute = 1; minute <= minutes; minute++) {
      await run.during(60_000)
      const last = run.samples.at(-1)
      if (last === undefined || minute % 5 !== 0) continue
      const { residentBytes, heapUsedBytes, lagP99Ms, requests, rowsWritten } = last
      const [resident, heap] = [residentBytes, heapUsedBytes].map((bytes) => (bytes / 1e6).toFixed(0))
      console.log(
        `${String(minute).padStart(4)} min  ${resident} MB, heap ${heap} MB, lag p99 ${lagP99Ms.toFixed(1)} ms, ${requests} requests, ${rowsWritten} rows`,
      )
    }
  } finally {
    await run.close()
    await rm(folder, { recursive: true, force: true })
  }
  const lastHalf = run.samples.filter(({ seconds }) => seconds >= minutes * 30)
  const { slope, uncertainty } = trendOf(
    lastHalf.map(({ seconds, residentBytes }) => ({ x: seconds / 3600, y: residentBytes / 1e6 })),
  )
  const isFlat = slope - uncertainty <= 0
  const last = run.samples.at(-1)
  console.log(
    `slope of resident memory over the last half: ${slope.toFixed(2)} ± ${uncertainty.toFixed(2)} MB an hour: ` +
      `${isFlat ? 'no growth that could be told from zero' : 'it grows'}; ${last?.requests ?? 0} requests, ${last?.failures ?? 0} failed`,
  )
  return isFlat ? 0 : 1
}
