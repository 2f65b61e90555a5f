import { expect, test } from 'vitest'
import { readRepositoryFile } from '../support/repositoryFiles.js'

const page = readRepositoryFile('docs/simulator.md')
const observed = page.slice(page.indexOf('\n## What was observed'))
const rows = observed.split('\n').filter((line) => /^\| (?!observed |-)/.test(line))

interface Link {
  readonly title: string
  readonly path: string
}

function linksIn(text: string): Link[] {
  return [...text.matchAll(/\[((?:[^\]\\]|\\.)+)\]\(\.\.\/(test\/[\w/.]+\.ts)\)/g)].map(
    ([, title = '', path = '']) => ({
      title: title.replaceAll(/\\(.)/g, '$1'),
      path,
    }),
  )
}

/** Whether the file has a test of exactly this title, in whichever quotes it is written. */
function hasTest({ title, path }: Link): boolean {
  const text = readRepositoryFile(path)
  return ["'", '"', '`'].some(
    (quote) => text.includes(`(${quote}${title}${quote},`) || text.includes(`\n    ${quote}${title}${quote},`),
  )
}

test('every fact that was observed names a test that shows it', () => {
  expect(rows.length).toBeGreaterThan(60)
  expect(rows.filter((row) => linksIn(row).length === 0)).toEqual([])
})

test('every test that is named exists under that title', () => {
  expect(linksIn(observed).filter((link) => !hasTest(link))).toEqual([])
})

test('the checker finds a title that there is not', () => {
  const [link] = linksIn('| a fact | [no such test](../test/repository/observed.test.ts) |')
  expect(link).toEqual({ title: 'no such test', path: 'test/repository/observed.test.ts' })
  expect(hasTest({ title: 'no such test', path: 'test/unit/simulator/rules.test.ts' })).toBe(false)
})
