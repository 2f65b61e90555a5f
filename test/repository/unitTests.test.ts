import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryFiles, repositoryRoot } from '../support/repositoryFiles.js'

/** Unit tests that are of no one file or folder, and why. */
const elsewhere: Readonly<Record<string, string>> = {
  'test/unit/fuzz.test.ts':
    'feeds whatever reads from outside: responses, HTTP, the spool, the API and the configuration',
}

const unitTests = repositoryFiles(/^test\/unit\/.*\.test\.ts$/).map(({ path }) => path)

/** `test/unit/market/candle.test.ts` is of `src/market/candle`, as is `candle.grid.test.ts`; tools of tests lie in `test`. */
function isOfSomething(path: string): boolean {
  const tested = path.replace(/^test\/unit\//, '').replace(/(\.\w+)?\.test\.ts$/, '')
  return ['src', 'test'].some((root) =>
    ['.ts', '.tsx', ''].some((end) => existsSync(join(repositoryRoot, root, `${tested}${end}`))),
  )
}

test('a unit test lies at the path of the file or folder that it tests', () => {
  expect(unitTests.length).toBeGreaterThan(90)
  expect(unitTests.filter((path) => !(path in elsewhere) && !isOfSomething(path))).toEqual([])
  expect(Object.keys(elsewhere).filter((path) => !unitTests.includes(path) || isOfSomething(path))).toEqual([])
})
