import { expect, test } from 'vitest'
import { admits, blockedFixes } from '../../scripts/nodeFloor.js'
import { readRepositoryFile } from '../support/repositoryFiles.js'

test.for<[string, boolean]>([
  ['>=20', true],
  ['>=20.19.0', true],
  ['>=22.12.0', false],
  ['^18 || >=20.1', true],
  ['^20.19.0 || >=22.12.0', true],
  ['^18 || ^22', false],
  ['>=16 <20', false],
  ['20.x', true],
  ['*', true],
])('an engine %s admits Node.js 20.19: %s', ([engines, expected]) => {
  expect(admits(engines, '20.19')).toBe(expected)
})

test('warns of a fix that the oldest Node.js keeps out, and of no other', () => {
  const fix = (name: string, version: string) => ({ name, severity: 'high', fixAvailable: { name, version } })
  const audit = {
    vulnerabilities: {
      undici: fix('undici', '8.14.0'),
      axios: fix('axios', '1.22.0'),
      hopeless: { name: 'hopeless', severity: 'low', fixAvailable: false },
    },
  }
  const engines: Record<string, string> = { 'undici@8.14.0': '>=22.19.0', 'axios@1.22.0': '>=18' }
  expect(blockedFixes(audit, '20.19', (name, version) => engines[`${name}@${version}`])).toEqual([
    'undici (high): fixed by undici 8.14.0, which needs Node.js >=22.19.0',
  ])
})

test('the look-ahead names the versions that package.json pins', () => {
  const { dependencies } = JSON.parse(readRepositoryFile('package.json')) as { dependencies: Record<string, string> }
  const [, section = ''] = readRepositoryFile('docs/internals/security.md').split('## The look-ahead')
  const rows = [...section.matchAll(/^\| (@?[\w/-]+) +\| ([\d.]+) +\|/gm)]
  expect(rows.length).toBeGreaterThan(3)
  const wrong = rows.filter(([, name = '', line = '']) => !`${dependencies[name] ?? ''}.`.startsWith(`^${line}.`))
  expect(wrong.map(([row]) => row)).toEqual([])
})
