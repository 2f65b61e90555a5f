import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** They mostly wait, for as long as they say: begun first, they are over when the others are. */
const longest = ['chaos.test.ts', 'record.test.ts', 'alerts.test.ts']

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => longest.some((name) => moduleId.endsWith(`/e2e/${name}`))
    const sorted = await super.sort(files)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

const setupFiles = ['test/support/fixedSeed.ts']

// The database and end-to-end projects start servers and daemons: a small machine takes few at a time.
const withServers = {
  globalSetup: ['test/support/globalDatabase.ts'],
  setupFiles,
  pool: 'forks' as const,
  testTimeout: 120_000,
  hookTimeout: 120_000,
}

export default defineConfig({
  test: {
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          setupFiles,
          testTimeout: 60_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'repository',
          include: ['test/repository/**/*.test.ts'],
          testTimeout: 60_000,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          ...withServers,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          ...withServers,
          testTimeout: 300_000,
          maxWorkers: 2,
          sequence: { groupOrder: 2 },
        },
      },
      {
        // Times of answers are compared with honest ones of the same run: nothing else runs beside.
        test: {
          name: 'hostile',
          include: ['test/hostile/**/*.test.ts'],
          ...withServers,
          maxWorkers: 1,
          sequence: { groupOrder: 4 },
        },
      },
      {
        // A browser beside them starves on a small machine.
        test: {
          name: 'browser',
          include: ['test/browser/**/*.test.ts'],
          ...withServers,
          maxWorkers: 1,
          sequence: { groupOrder: 3 },
        },
      },
    ],
  },
})
