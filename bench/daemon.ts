import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { DaemonSample } from './daemonProcess.js'
import { startDaemonRun } from './daemonRun.js'

/**
 * The daemon at live scale: all tickers every 5 s, all instruments, books and fills of the 100 busiest instruments.
 * Simulator, daemon and database are processes of their own; the daemon reports on itself.
 */
export async function benchDaemon(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...argv], options: { minutes: { type: 'string', default: '10' } } })
  const minutes = Number(values.minutes)
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-'))
  const run = await startDaemonRun({ BENCH_DATA_DIR: folder }, 'live')
  try {
    for (let minute = 1; minute <= minutes; minute++) {
      await run.during(60_000)
      const last = run.samples.at(-1)
      if (last !== undefined) console.log(lineOf(last))
    }
    return report(run.samples, minutes)
  } finally {
    await run.close()
    await rm(folder, { recursive: true, force: true })
  }
}

function lineOf({ seconds, residentBytes, lagP99Ms, requests, rowsWritten }: DaemonSample): string {
  const memory = `${(residentBytes / 1e6).toFixed(0)} MB`
  const time = `${seconds.toFixed(0).padStart(4)} s`
  return [time, memory, `lag p99 ${lagP99Ms.toFixed(1)} ms`, `${requests} requests`, `${rowsWritten} rows`].join('  ')
}

function report(samples: readonly DaemonSample[], minutes: number): number {
  const last = samples.at(-1)
  if (last === undefined) throw new Error('no sample was taken: give --minutes 1 or more')
  const secondHalf = samples.filter((sample) => sample.seconds >= (minutes * 60) / 2)
  const peakMb = Math.max(...samples.map((sample) => sample.residentBytes)) / 1e6
  const slope = slopeMbPerMinute(secondHalf)
  const noise = standardDeviation(secondHalf.map((sample) => sample.residentBytes / 1e6))
  const driftMb = slope * (minutes / 2)
  const checks = [
    ['event-loop lag, p99 over the whole run', `${last.lagP99Ms.toFixed(1)} ms`, '< 20 ms', last.lagP99Ms < 20],
    [
      'responses durable within 100 ms of their last byte',
      `${(last.promptShare * 100).toFixed(2)} %`,
      '>= 99 %',
      last.promptShare >= 0.99,
    ],
    ['event-loop lag, mean', `${last.lagMeanMs.toFixed(2)} ms`, '', true],
    ['event-loop lag, longest', `${last.lagMaxMs.toFixed(0)} ms`, '', true],
    ['resident memory, highest', `${peakMb.toFixed(0)} MB`, '< 200 MB', peakMb < 200],
    [
      'drift of resident memory over the second half',
      `${driftMb.toFixed(1)} MB (noise ±${noise.toFixed(1)} MB)`,
      'flat: within 2 × noise or 5 MB',
      Math.abs(driftMb) <= Math.max(5, 2 * noise),
    ],
    ['processor time of the daemon', `${((last.cpuSeconds / last.seconds) * 100).toFixed(1)} % of a core`, '', true],
    ['requests', `${last.requests} (${(last.requests / last.seconds).toFixed(1)}/s)`, '', true],
    ['failed requests', String(last.failures), '0', last.failures === 0],
    ['polls left out', String(last.skippedPolls), '', true],
    ['rows written', String(last.rowsWritten), '', true],
  ] as const
  const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
  for (const [what, measured, wanted, ok] of checks) table.push([what, measured, wanted, ok ? 'ok' : 'MISSED'])
  console.log(table.toString())
  return checks.every(([, , , ok]) => ok) ? 0 : 1
}

function slopeMbPerMinute(samples: readonly DaemonSample[]): number {
  const n = samples.length
  const meanX = samples.reduce((sum, { seconds }) => sum + seconds / 60, 0) / n
  const meanY = samples.reduce((sum, { residentBytes }) => sum + residentBytes / 1e6, 0) / n
  let covariance = 0
  let variance = 0
  for (const { seconds, residentBytes } of samples) {
    covariance += (seconds / 60 - meanX) * (residentBytes / 1e6 - meanY)
    variance += (seconds / 60 - meanX) ** 2
  }
  return variance === 0 ? 0 : covariance / variance
}

function standardDeviation(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length)
}
