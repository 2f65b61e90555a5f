import { defineConfig } from 'vitest/config'

/** Runs for as long as it is told to, so it is not part of the tests; a short form of it is. */
export default defineConfig({ test: { include: ['test/chaos/chaos.test.ts'], disableConsoleIntercept: true } })
