import { dayMs } from '../src/market/values.js'
import { candleRequests, openBench, type Program, sleep, startProgram, stopProgram } from './backfillSetup.js'
import { backfillArgs, type BackfillBenchOptions, type Check, configOf, rangeOf } from './backfillWork.js'
import { cpuSeconds } from './processUse.js'

/** How much of one operation's limit a backfill uses, and what that costs. */
export async function benchLimits({ seconds }: BackfillBenchOptions): Promise<Check[]> {
  const jitterMs = 60
  const bench = await openBench({ limitFactor: 1, jitterMs })
  try {
    const { url } = await bench.createDatabase('limits')
    const config = await bench.configure('limits', configOf(bench, 1, jitterMs))
    const { to } = rangeOf(0)
    // Beyond the reach of candles, so that one operation is in use.
    const program = startProgram(backfillArgs(config, to - 1_500 * dayMs, to - 40 * dayMs), url)
    const pid = program.process.pid ?? 0
    await sleep(15_000)
    const before = { ...candleRequests(await bench.report()), cpu: await cpuSeconds(pid), ms: performance.now() }
    await sleep(seconds * 1000)
    const after = { ...candleRequests(await bench.report()), cpu: await cpuSeconds(pid), ms: performance.now() }
    await stopProgram(program, 'SIGKILL')
    const took = (after.ms - before.ms) / 1000
    const share = (after.requests - before.requests) / took / (20 / (1 + jitterMs / 1000))
    const cpu = (after.cpu - before.cpu) / took
    return [
      [
        `history-candles at the real limits over ${seconds} s, of the safe bound`,
        share.toFixed(4),
        '>= 0.98',
        share >= 0.98,
      ],
      ['rejections', String(after.rejected), '0', after.rejected === 0],
      ['Node, of a core', `${(cpu * 100).toFixed(1)} %`, '< 30 %', cpu < 0.3],
    ]
  } finally {
    await bench.close()
  }
}

interface LiveMetrics {
  readonly requests: number
  readonly waitSeconds: number
  readonly responseSeconds: number
  readonly history: number
}

/** The live streams with a backfill beside them. */
export async function benchBeside({ seconds }: BackfillBenchOptions): Promise<Check[]> {
  const jitterMs = 60
  const phaseMs = Math.max(30, seconds / 5) * 1000
  const bench = await openBench({ limitFactor: 1, jitterMs })
  let daemon: Program | undefined
  let backfill: Program | undefined
  try {
    const { url } = await bench.createDatabase('beside')
    const port = 18_000 + Math.floor(Math.random() * 1_000)
    const base = configOf(bench, 1, jitterMs)
    const config = await bench.configure('beside', {
      ...base,
      serve: { port },
      streams: {
        tickers: { schedule: '*/2 * * * * *' },
        orderBooks: { everySeconds: 1 },
        fills: { minPollSeconds: 1, maxPollSeconds: 2 },
      },
    })
    daemon = startProgram(['start', '--config', config, '--allow-overload'], url)
    await sleep(20_000)
    const phase = async () => {
      const before = await liveMetrics(port)
      await sleep(phaseMs)
      const after = await liveMetrics(port)
      const requests = after.requests - before.requests
      return {
        waitMs: ((after.waitSeconds - before.waitSeconds) / requests) * 1000,
        responseMs: ((after.responseSeconds - before.responseSeconds) / requests) * 1000,
        live: requests / (phaseMs / 1000),
        history: (after.history - before.history) / (phaseMs / 1000),
      }
    }
    const without = await phase()
    const { to } = rangeOf(0)
    backfill = startProgram(backfillArgs(config, to - 1_500 * dayMs, to - 40 * dayMs), url)
    await sleep(10_000)
    const beside = await phase()
    const { rejected } = candleRequests(await bench.report())
    const latency = (phase: typeof without) => phase.waitMs + phase.responseMs
    const ratio = latency(beside) / latency(without)
    return [
      [
        'live requests/s alone, beside a backfill',
        `${without.live.toFixed(1)}, ${beside.live.toFixed(1)}`,
        'equal',
        Math.abs(beside.live / without.live - 1) < 0.05,
      ],
      [
        'live wait + response, ms, alone and beside',
        `${latency(without).toFixed(1)}, ${latency(beside).toFixed(1)} (${ratio.toFixed(2)})`,
        'ratio < 1.15',
        ratio < 1.15,
      ],
      [
        'history-candles/s of the backfill, of the safe bound',
        (beside.history / (20 / (1 + jitterMs / 1000))).toFixed(3),
        '>= 0.95',
        beside.history / (20 / (1 + jitterMs / 1000)) >= 0.95,
      ],
      ['rejections', String(rejected), '0', rejected === 0],
    ]
  } finally {
    if (backfill !== undefined) await stopProgram(backfill)
    if (daemon !== undefined) await stopProgram(daemon)
    await bench.close()
  }
}

/** Sums over the live class and its responses, from what the daemon says of itself. */
async function liveMetrics(port: number): Promise<LiveMetrics> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const sum = (pattern: RegExp) => [...text.matchAll(pattern)].reduce((total, match) => total + Number(match[1]), 0)
  return {
    requests: sum(/request_wait_seconds_count\{[^}]*class="live"[^}]*\} (\S+)/g),
    waitSeconds: sum(/request_wait_seconds_sum\{[^}]*class="live"[^}]*\} (\S+)/g),
    responseSeconds: sum(/request_duration_seconds_sum\{[^}]*operation="(?!history)[^}]*\} (\S+)/g),
    history: sum(/request_duration_seconds_count\{[^}]*operation="history-candles"[^}]*\} (\S+)/g),
  }
}
