import { expect, test } from 'vitest'
import { readRepositoryFile } from '../support/repositoryFiles.js'
import { hasTest, testLinksIn } from '../support/testLinks.js'

const page = readRepositoryFile('docs/assumptions.md')
const assumptions = page.slice(page.indexOf('\n## Assumptions'))
const rows = assumptions.split('\n').filter((line) => /^\| (?!assumed |-)/.test(line))

test('every assumption names a test that shows it, or says that none does yet', () => {
  expect(rows.length).toBeGreaterThan(50)
  expect(rows.filter((row) => testLinksIn(row).length === 0 && !row.includes('not yet shown'))).toEqual([])
})

test('every test that is named exists under that title', () => {
  expect(testLinksIn(assumptions).filter((link) => !hasTest(link))).toEqual([])
})
