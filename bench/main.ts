import { benchArchive } from './archive.js'
import { benchCost } from './cost.js'
import { benchFills } from './fills.js'
import { benchFleet } from './fleet.js'
import { benchGrowth } from './growth.js'
import { benchPacing } from './pacing.js'
import { benchPage } from './page.js'
import { benchPast } from './past.js'
import { benchRule } from './rule.js'
import { benchSoak } from './soak.js'
import { leaveNothing } from '../test/support/program.js'

/** Each benchmark takes the arguments after its name and resolves to the exit code: 0 if every target is met. */
const benchmarks: Readonly<Record<string, { run(argv: readonly string[]): Promise<number>; summary: string }>> = {
  pacing: {
    run: benchPacing,
    summary: 'requests a second inside the limits, against the safe bound [--seconds 120] [--jitter 60]',
  },
  cost: {
    run: benchCost,
    summary:
      'what the program costs, as ratios, by section: [startup] [client] [storing] [bulk] [gaps] [query] [daemon] [--rounds 15] [--write]',
  },
  fills: {
    run: benchFills,
    summary:
      'share of fills captured within the limits, on the simulator and on trade tapes [--tapes DIR] [--part report] [--minutes 10] [--windows 3] [--watch 0.5] [--only CELL]',
  },
  fleet: {
    run: benchFleet,
    summary:
      'eight recorders on one database: what they record, and what accidents cost [--only share,faults] [--seconds 40] [--seeds 1,2,3]',
  },
  growth: {
    run: benchGrowth,
    summary:
      'the same writes and questions on a database of a hundred times as many rows, on TimescaleDB Community [--url URL] [--candles 100000000] [--fills 50000000] [--rounds 7]; or the cookbook beside a share of three years and 800 others, on any server [--cookbook 0.1]',
  },
  past: {
    run: benchPast,
    summary:
      'what each call of the API takes, and an open page, with 20 million candles and a year of chunks, on TimescaleDB Community [--url URL] [--candles 20000000] [--chunks 1460] [--seconds 40]',
  },
  soak: {
    run: benchSoak,
    summary:
      'what the daemon holds at each tenth of two hours, at live scale with the default configuration [--minutes 120]',
  },
  archive: {
    run: benchArchive,
    summary:
      'bytes a row of an archive; memory and time of a large day; how publishing tables grows; its process killed again and again, in a folder or a bucket [--only size,day,kills,growth] [--fills 5000000] [--candles 500000] [--books 20000] [--kills 20] [--bucket]',
  },
  rule: {
    run: benchRule,
    summary:
      'the claims of the ledger against a model of the rule, by sequences of responses [--seed 1] [--sequences 20000] [--minutes 120] [--stop-at-first]',
  },
  page: {
    run: benchPage,
    summary: 'first paint and bytes of the page with a year of candles [--instruments 4600] [--days 365]',
  },
}

const [name = '', ...argv] = process.argv.slice(2)
const benchmark = Object.hasOwn(benchmarks, name) ? benchmarks[name] : undefined
if (benchmark === undefined || argv.includes('--help')) {
  const told = Object.entries(benchmarks).filter(([known]) => benchmark === undefined || known === name)
  const lines = told.map(([known, { summary }]) => `  ${known.padEnd(8)} ${summary}`)
  console.error(['Usage: npm run bench -- <benchmark> [options]', ...lines].join('\n'))
  process.exitCode = benchmark === undefined && name !== '--help' ? 2 : 0
} else {
  try {
    process.exitCode = await benchmark.run(argv)
  } catch (error) {
    console.error(`${name}: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  } finally {
    await leaveNothing()
  }
}
