import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { defineConfig, type Plugin } from 'vite'

/** Puts a compressed copy beside each file, so that the server never compresses the page. */
function precompress(): Plugin {
  let outDir = ''
  return {
    name: 'precompress',
    configResolved({ build }) {
      outDir = build.outDir
    },
    closeBundle() {
      for (const entry of readdirSync(outDir, { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || !/\.(html|js|css|svg)$/.test(entry.name)) continue
        const path = `${entry.parentPath}/${entry.name}`
        const content = readFileSync(path)
        writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }))
        writeFileSync(`${path}.br`, brotliCompressSync(content))
      }
    },
  }
}

export default defineConfig({
  root: fileURLToPath(new URL('src/serve/page', import.meta.url)),
  logLevel: 'warn',
  build: {
    outDir: fileURLToPath(new URL('dist/page', import.meta.url)),
    emptyOutDir: true,
    target: 'es2022',
    // The first that know light-dark(), of 2024: otherwise it would be written out for older ones.
    cssTarget: ['chrome123', 'firefox120', 'safari17.5'],
    // Small files would otherwise be inlined, which the content security policy forbids.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  plugins: [precompress()],
})
