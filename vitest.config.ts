import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { FlakyTests } from './test/support/flakyTests.js'

/**
 * Those that take longest, whether they wait or compute: begun first, they are over when the others are. Of the
 * integration tests, those that mostly wait (marked) alternate with those that compute, so that neither core idles.
 */
const longest = [
  'e2e/wrongClock',
  'e2e/alerts',
  'e2e/foreignData',
  'browser/page',
  'e2e/chaos',
  'e2e/backfill',
  'e2e/recordsNothing',
  'hostile/service',
  'e2e/backfillFills',
  'e2e/simulatedTime',
  'e2e/market',
  'e2e/demo',
  'browser/panels',
  'hostile/pipelining',
  'e2e/end',
  'e2e/record',
  'e2e/archive/sequences',
  'e2e/archive/bucket',
  'e2e/cli/badInput',
  'e2e/embedded/embedded',
  'e2e/recorder/missingCategory',
  'e2e/recorder/boundedQueries',
  'integration/lease/lease', // waits
  'integration/exchange/standstill', // waits
  'integration/ledger/model',
  'integration/files/archive/archive',
  'integration/history/gaps',
  'integration/files/archive/removal',
  'integration/ledger/fillContinuity',
  'integration/files/archive/adoptedGaps',
  'integration/collect/fleet', // waits
  'integration/collect/positioning', // waits
  'integration/history/cutPages',
  'integration/exchange/simulator',
  'integration/sql/reference',
  'integration/lease/commands', // waits
  'integration/collect/queue', // waits
  'integration/files/iceberg/tables',
  'integration/ledger/storeBatches',
  'integration/history/pastFunding',
  'integration/history/pastLiquidations',
  'integration/collect/futuresTerms', // waits
]
/** After those, from the longest to the shortest. */
const folders = ['e2e', 'hostile', 'browser', 'integration', 'repository', 'unit']

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const place = longest.findIndex((name) => moduleId.endsWith(`/test/${name}.test.ts`))
      return place >= 0 ? place : longest.length + folders.findIndex((name) => moduleId.includes(`/test/${name}/`))
    }
    const sorted = await super.sort(files)
    return sorted.toSorted((a, b) => rank(a) - rank(b))
  }
}

/**
 * Flags of the workers. On two cores, the threads of a parallel garbage collection wait for one another. More room for
 * new objects makes collections rarer.
 */
const execArgv = ['--single-threaded-gc', '--max-semi-space-size=32']

/** A busy machine needs time. A poll fails only when its condition never comes true. */
const everywhere = {
  setupFiles: ['test/support/fixedSeed.ts'],
  expect: { poll: { timeout: 300_000, interval: 50 } },
  execArgv,
}

const isInCi = process.env['CI'] !== undefined

/**
 * Time-outs that only a test that hangs reaches, because a busy machine may take its time: what was cut off so would go on
 * beside the next attempt. In CI a test that fails gets a second attempt, and `flakyTests` prints it. So other changes do
 * not wait for a defect of a test.
 */
const patience = { testTimeout: 1_200_000, hookTimeout: 1_200_000, retry: isInCi ? 1 : 0 }

/** Options of tests with servers, recorders and browsers. They wait for schedules and for minutes to end. */
const withServers = {
  globalSetup: ['test/support/filesInMemory.ts', 'test/support/globalDatabase.ts'],
  ...everywhere,
  setupFiles: [...everywhere.setupFiles, 'test/support/afterFile.ts'],
  ...patience,
}

/**
 * All projects share the workers, so that none of them idles: two cores have time for others while files wait for something.
 * Files keep nothing from one another, so they are not isolated: to load everything anew for each takes longer than many tests.
 * A worker ends when a file of another project is next, so whatever needs the servers is one project.
 */
export default defineConfig({
  test: {
    // Three for each of two cores, because many files wait. Those with whole programs have four (`test:system`).
    maxWorkers: 6,
    // The server of the run has to stop after the last test.
    teardownTimeout: 120_000,
    ...(isInCi && { reporters: ['dot', new FlakyTests()] }),
    // What one project has transformed the others need not, nor does the next run.
    experimental: { fsModuleCache: true },
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          ...everywhere,
          ...patience,
          isolate: false,
        },
      },
      {
        test: {
          name: 'repository',
          include: ['test/repository/**/*.test.ts'],
          execArgv,
          ...patience,
          isolate: false,
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          ...withServers,
          isolate: false,
        },
      },
      {
        // Whole recorders, and all that is done to them.
        test: {
          name: 'system',
          include: ['test/{e2e,hostile,browser}/**/*.test.ts'],
          ...withServers,
          isolate: false,
        },
      },
    ],
  },
})
