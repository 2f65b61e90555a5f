import { defineConfig } from 'vitest/config'

// The database and end-to-end projects start servers and daemons: a small machine takes few at a time.
const withServers = {
  globalSetup: ['test/support/globalDatabase.ts'],
  pool: 'forks' as const,
  testTimeout: 120_000,
  hookTimeout: 120_000,
}

export default defineConfig({
  test: {
    projects: [
      { test: { name: 'unit', include: ['test/unit/**/*.test.ts'], testTimeout: 60_000, sequence: { groupOrder: 0 } } },
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
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
