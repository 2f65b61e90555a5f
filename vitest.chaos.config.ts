import { defineConfig } from 'vitest/config'

/** They run for as long as they are told to, each alone on its machine, so they are not part of the tests. Short forms are. */
export default defineConfig({
  test: { include: ['test/chaos/*.test.ts'], disableConsoleIntercept: true, fileParallelism: false },
})
