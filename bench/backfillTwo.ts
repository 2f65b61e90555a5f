import { benchSymbols } from './backfillMarket.js'
import { candleRequests, openBench, sleep, startProgram, stopProgram } from './backfillSetup.js'
import {
  backfillArgs,
  type BackfillBenchOptions,
  type Check,
  compare,
  configOf,
  minRequests,
  rangeOf,
} from './backfillWork.js'

/** Two workers on addresses of their own against one database, and one of them killed half-way. */
export async function benchTwo({ days }: BackfillBenchOptions): Promise<Check[]> {
  // At the real limits, so that the limit decides and not this machine.
  const bench = await openBench({ limitFactor: 1, jitterMs: 0 })
  try {
    const { from, to } = rangeOf(Math.min(days, 90))
    const worker = async (address: string, egress: string) =>
      bench.configure(egress, {
        ...configOf(bench, 1, 20, { localAddress: address }),
        collector: { egress },
      })
    const configs = [await worker('127.0.0.1', 'one'), await worker('127.0.0.2', 'two')] as const
    const timed = async (work: () => Promise<void>) => {
      const startedMs = performance.now()
      await work()
      return (performance.now() - startedMs) / 1000
    }
    const single = await bench.createDatabase('one_worker')
    const one = await timed(async () => {
      await startProgram(backfillArgs(configs[0], from, to), single.url).ended
    })
    const { requests } = candleRequests(await bench.report())
    const least = minRequests(from, to, benchSymbols.length)
    const pair = await bench.createDatabase('two_workers')
    const two = await timed(async () => {
      const programs = configs.map((config) => startProgram(backfillArgs(config, from, to), pair.url))
      await Promise.all(programs.map(({ ended }) => ended))
    })
    const wrongPair = await compare(pair.database, from, to)
    const halved = await bench.createDatabase('one_killed')
    const [first, second] = configs.map((config) => startProgram(backfillArgs(config, from, to), halved.url))
    await sleep(two * 500)
    if (second !== undefined) await stopProgram(second, 'SIGKILL')
    const last = await first?.ended
    const wrongHalved = await compare(halved.database, from, to)
    const { rejected } = candleRequests(await bench.report())
    return [
      [
        'requests of one worker, the least possible',
        `${requests}, ${least} (${(requests / least).toFixed(4)})`,
        '<= 1.01',
        requests <= least * 1.01,
      ],
      [
        'two workers, of the time of one',
        `${two.toFixed(1)} s / ${one.toFixed(1)} s = ${(two / one).toFixed(3)}`,
        '<= 0.55',
        two / one <= 0.55,
      ],
      ['candles that differ after two workers', String(wrongPair), '0', wrongPair === 0],
      ['candles that differ after one was killed half-way', String(wrongHalved), '0', wrongHalved === 0],
      ['exit code of the other', String(last?.exitCode), '0', last?.exitCode === 0],
      ['rejections', String(rejected), '0', rejected === 0],
    ]
  } finally {
    await bench.close()
  }
}
