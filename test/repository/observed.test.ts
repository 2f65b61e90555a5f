import { expect, test } from 'vitest'
import { readRepositoryFile } from '../support/repositoryFiles.js'
import { hasTest, testLinksIn } from '../support/testLinks.js'

const page = readRepositoryFile('docs/internals/observed.md')
const observed = page.slice(0, page.indexOf('\n## The flow of fills'))
const rows = observed.split('\n').filter((line) => /^\| (?!observed |-)/.test(line))

test('every fact that was observed names a test that shows it', () => {
  expect(rows.length).toBeGreaterThan(60)
  expect(rows.filter((row) => testLinksIn(row).length === 0)).toEqual([])
})

test('every test that is named exists under that title', () => {
  expect(testLinksIn(observed).filter((link) => !hasTest(link))).toEqual([])
})

test('the checker finds a title that there is not', () => {
  const [link] = testLinksIn('| a fact | [no such test](../test/repository/observed.test.ts) |')
  expect(link).toEqual({ title: 'no such test', path: 'test/repository/observed.test.ts' })
  expect(hasTest({ title: 'no such test', path: 'test/unit/simulator/server.rules.test.ts' })).toBe(false)
})
