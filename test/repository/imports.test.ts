import { describe, expect, test } from 'vitest'
import { circles, importsBetween } from '../support/circles.js'
import {
  allowedArrows,
  importedParts,
  importsOf,
  importViolations,
  packageName,
  partOf,
} from '../support/importRules.js'
import { readRepositoryFile, repositoryFiles } from '../support/repositoryFiles.js'

const shipped = repositoryFiles(/^(src|migrations)\/.*\.ts$/)

test('every file of src belongs to a known part', () => {
  expect(shipped.length).toBeGreaterThan(20)
  expect(shipped.filter(({ path }) => partOf(path) === null).map(({ path }) => path)).toEqual([])
})

test('no part imports what it must not know', () => {
  expect(shipped.flatMap(importViolations)).toEqual([])
})

test('every arrow that is allowed is drawn by an import', () => {
  const drawn = new Set(shipped.flatMap(importedParts))
  expect(allowedArrows().filter((arrow) => !drawn.has(arrow))).toEqual([])
})

test('nothing imports in a circle: no file, and no folder at any depth', () => {
  expect(circles(importsBetween(repositoryFiles(/^src\/.*\.tsx?$/)))).toEqual([])
})

test('every imported package is a dependency, and every dependency is used', () => {
  const { dependencies: always, peerDependencies } = JSON.parse(readRepositoryFile('package.json')) as {
    dependencies: Record<string, string>
    peerDependencies: Record<string, string>
  }
  const dependencies = { ...always, ...peerDependencies }
  // The page is bundled when the project is built: what it imports is not needed afterwards.
  const installed = shipped.filter(({ path }) => !path.startsWith('src/serve/page/'))
  const imported = new Set(
    installed
      .flatMap(({ text }) => importsOf(text).map(({ specifier }) => specifier))
      .filter(isPackage)
      .map(packageName),
  )
  expect([...imported].filter((name) => !(name in dependencies))).toEqual([])
  const quoted = shipped.map(({ text }) => text).join('\n')
  // A package may also be named in a text, as pino's transports are.
  const isUsed = (name: string) => imported.has(name) || quoted.includes(`'${name}'`) || quoted.includes(`@${name}/`)
  expect(Object.keys(dependencies).filter((name) => !isUsed(name))).toEqual([])
})

describe('the checker', () => {
  const check = (path: string, text: string) => importViolations({ path, text })

  test.each([
    ['src/ledger/a.ts', "import { x } from '../exchange/client.js'"],
    ['src/exchange/a.ts', "import type { X } from '../ledger/schema.js'"],
    ['src/market/a.ts', "import type { Logger } from '../runtime/logger.js'"],
    ['src/simulator/world/a.ts', "import { x } from '../../exchange/client.js'"],
    ['src/collect/a.ts', "import { x } from '../app.js'"],
    ['src/collect/a.ts', "import {\n  x,\n  type Y,\n} from '../cli/options.js'"],
    ['src/serve/a.ts', "import type { X } from '../lease/lease.js'"],
    ['src/collect/a.ts', "import { x } from '../serve/server.js'"],
    ['src/ledger/a.ts', "export { x } from '../collect/plan.js'"],
    ['src/ledger/a.ts', "export * from '../collect/plan.js'"],
    ['src/ledger/a.ts', "import '../collect/plan.js'"],
    ['src/ledger/a.ts', "  const x = await import('../collect/plan.js')"],
    ['src/app.ts', "import { x } from '../test/support/database.js'"],
    ['src/runtime/a.ts', "import type { Config } from '../config/resolve.js'"],
    ['src/cli/a.ts', "import pg from 'pg'"],
    ['src/collect/a.ts', "import axios from 'axios'"],
    ['src/market/a.ts', "import { x } from '../unheardOf/a.js'"],
  ])('refuses in %s: %s', (path, text) => {
    expect(check(path, text)).toHaveLength(1)
  })

  test.each([
    ['src/main.ts', "import { runProgram } from './cli/program.js'"],
    ['src/serve/a.ts', "import { x } from '../collect/streams/stream.js'"],
    ['src/db/a.ts', "import * as first from '../../migrations/0001_first.js'\nimport pg from 'pg'"],
    ['src/exchange/a.ts', "import axios, { type AxiosInstance } from 'axios'\nimport { x } from './pacer.js'"],
    ['src/collect/a.ts', "import type { Config } from '../config/resolve.js'\n// import x from '../app.js'"],
  ])('accepts in %s: %s', (path, text) => {
    expect(check(path, text)).toEqual([])
  })
})

describe('the search for circles', () => {
  const files = (imports: Readonly<Record<string, string>>) =>
    Object.entries(imports).map(([path, specifier]) => ({ path, text: `import { x } from '${specifier}'` }))
  const search = (imports: Readonly<Record<string, string>>) => circles(importsBetween(files(imports)))

  test('finds files that import each other', () => {
    expect(search({ 'src/a.ts': './b.js', 'src/b.ts': './c.js', 'src/c.tsx': './a.js', 'src/d.ts': './a.js' })).toEqual(
      ['src/a.ts, src/b.ts, src/c.tsx'],
    )
  })

  test('finds folders that import each other although no files do', () => {
    expect(
      search({
        'src/x/a/1.ts': '../b/1.js',
        'src/x/b/1.ts': './2.js',
        'src/x/b/2.ts': '../a/2.js',
        'src/x/a/2.ts': 'pg',
      }),
    ).toEqual(['src/x/a, src/x/b'])
  })

  test('passes a pipeline', () => {
    expect(search({ 'src/a/1.ts': '../b/1.js', 'src/b/1.ts': '../c.js', 'src/c.ts': 'pg' })).toEqual([])
  })
})

function isPackage(specifier: string): boolean {
  return !specifier.startsWith('.') && !specifier.startsWith('node:')
}
