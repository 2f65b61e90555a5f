import { parseArgs } from 'node:util'
import { benchGrowth, benchIdle } from './archive/growth.js'
import { killInBucket, killInFolder } from './archive/kills.js'
import { runSequences } from './archive/sequences.js'
import { measureBigDay, measureSize } from './archive/sizes.js'
import { type Check, printChecks } from './tools/checks.js'
import { type BenchDatabase, withDatabase } from './tools/database.js'

/** Measures the disk, memory and time that an archive takes, and kills its process again and again. */
export async function benchArchive(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      fills: { type: 'string', default: '5000000' },
      candles: { type: 'string', default: '500000' },
      books: { type: 'string', default: '20000' },
      kills: { type: 'string', default: '20' },
      only: { type: 'string', default: 'size,day,kills' },
      seed: { type: 'string', default: '1' },
      sequences: { type: 'string', default: '1000' },
      minutes: { type: 'string', default: '120' },
      'stop-at-first': { type: 'boolean', default: false },
      bucket: { type: 'boolean', default: false },
    },
  })
  const parts: Readonly<Record<string, (bench: BenchDatabase) => Promise<Check[]>>> = {
    size: (bench) => measureSize(bench, Number(values.candles), Number(values.books)),
    day: (bench) => measureBigDay(bench, Number(values.fills)),
    growth: benchGrowth,
    idle: benchIdle,
    sequences: (bench) =>
      runSequences(bench, {
        first: Number(values.seed),
        count: Number(values.sequences),
        minutes: Number(values.minutes),
        stopsAtFirst: values['stop-at-first'],
      }),
    kills: (bench) => (values.bucket ? killInBucket : killInFolder)(bench, Number(values.kills)),
  }
  return withDatabase(async (bench) => {
    const checks: Check[] = []
    for (const [name, measure] of Object.entries(parts))
      if (values.only.split(',').includes(name)) checks.push(...(await measure(bench)))
    return printChecks(checks)
  })
}
