import { lstatSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { type RepositoryFile, repositoryFiles, repositoryRoot } from '../support/repositoryFiles.js'

const sources = repositoryFiles(/^(src|migrations|scripts|bench|test)\/.*\.ts$/)
const texts = repositoryFiles(/\.(ts|json|md|yaml|yml|sh|sql)$|^\.ci\//)

/** `path:line: text` of each line that the pattern matches. */
function linesMatching(files: readonly RepositoryFile[], pattern: RegExp): string[] {
  return files.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  )
}

// Character classes such as [a] keep the patterns from matching themselves in this file.
const escapes = {
  'the any type': /\bas [a]ny\b|[:<|&] ?[a]ny\b(?! )/,
  // One rule may be switched off for one line, with its reason.
  'switched-off checks':
    /@ts-(?:[i]gnore|[e]xpect-error|[n]ocheck)|(?:oxlint|eslint)-[d]isable(?!-next-line \S+ -- \w)/,
  'default exports': /^export [d]efault\b/,
  enums: /^(?:export )?(?:const )?[e]num \w/,
  'reminders of work to do': /\b(?:TO[D]O|FIX[M]E|X[X]X)\b/,
  'tests that are switched off': /\.(?:[o]nly|[t]odo)\(|\b(?:test|it|describe)\.[s]kip\(/,
}

describe('sources have none of', () => {
  test.each(Object.entries(escapes))('%s', (_, pattern) => {
    expect(linesMatching(sources, pattern)).toEqual([])
  })

  test('barrels', () => {
    const isBarrel = ({ path, text }: RepositoryFile) =>
      basename(path) === 'index.ts' || /^export \* from/m.test(text) || statements(text).every(isReExport)
    expect(sources.filter(isBarrel).map(({ path }) => path)).toEqual([])
  })

  test('files that collect whatever fits nowhere', () => {
    expect(sources.filter(({ path }) => /(?:^|\/)(?:utils?|helpers?|misc|common)(?:\.|\/)/i.test(path))).toEqual([])
  })

  test('files too long to read at once', () => {
    const long = sources
      .map(({ path, text }) => ({ path, lines: text.split('\n').length - 1 }))
      .filter((f) => f.lines > 350)
    expect(long).toEqual([])
  })
})

describe('the recorder', () => {
  test('takes no advisory lock: those have no privileges, so that anybody who may connect could hold it up', () => {
    const shipped = sources.filter(({ path }) => /^(src|migrations)\//.test(path))
    // Kysely's migrator takes one. A name in quotes is not called.
    const lines = linesMatching(shipped, /(?<!')pg_(?:try_)?advisory|\bMigrator\b/)
    expect(lines).toEqual([])
  })
})

describe('a command', () => {
  test('prints by functions that escape what would control a terminal', () => {
    const others = sources.filter(({ path }) => /^src\/cli\/(?!output)/.test(path))
    expect(linesMatching(others, /\bstd(?:out|err)\.write\(|\bconsole\./)).toEqual([])
  })
})

describe('the right to send', () => {
  test('is made by the lease and by the lock of a data folder alone', () => {
    const shipped = sources.filter(({ path }) => path.startsWith('src/'))
    const makers = linesMatching(shipped, /\b(?:extends|implements|as) Right\b/)
    expect(makers.map((line) => line.split(':')[0])).toEqual(['src/lease/lease.ts', 'src/lease/right.ts'])
  })
})

describe('the checks', () => {
  // In pieces, so that this file has none of them.
  const matches = (name: keyof typeof escapes, ...pieces: string[]) => escapes[name].test(pieces.join(''))

  test('find what they look for', () => {
    expect(matches('the any type', 'const x = y as', ' any')).toBe(true)
    expect(matches('the any type', 'function f(x:', ' any) {')).toBe(true)
    expect(matches('the any type', '// it is free to any user: any port will do')).toBe(false)
    expect(matches('switched-off checks', '// @ts-', 'ignore')).toBe(true)
    expect(matches('switched-off checks', '// oxlint-', 'disable')).toBe(true)
    expect(matches('switched-off checks', '// oxlint-', 'disable-next-line no-control-regex')).toBe(true)
    expect(matches('switched-off checks', '// oxlint-', 'disable-next-line no-control-regex -- wanted')).toBe(false)
    expect(matches('default exports', 'export ', 'default {}')).toBe(true)
    expect(matches('enums', 'export ', 'enum Side {')).toBe(true)
    expect(matches('reminders of work to do', '// TO', 'DO later')).toBe(true)
    expect(matches('tests that are switched off', 'test.', "only('x')")).toBe(true)
    expect(matches('tests that are switched off', 'describe.', "skip('x')")).toBe(true)
  })
})

test('nothing names a folder of the machine it was written on', () => {
  const isMachinePath = (line: string) => line.includes(`${repositoryRoot}/`) || /\/(?:home|Users|root)\/\w/.test(line)
  const found = texts.flatMap(({ path, text }) =>
    text
      .split('\n')
      .filter(isMachinePath)
      .map((line) => `${path}: ${line}`),
  )
  expect(found).toEqual([])
})

test('nothing is a link, which may lead out of the checkout', () => {
  const isLink = ({ path }: RepositoryFile) => lstatSync(join(repositoryRoot, path)).isSymbolicLink()
  expect(repositoryFiles(/./).filter(isLink)).toEqual([])
})

test('nothing refers to where the project is planned: reasons stand in the text itself', () => {
  expect(linesMatching(texts, /\b(?:[i]ssue|ticket|task) ?#?\d+\b|\bDESIGN(?:\.md| section)/i)).toEqual([])
})

function statements(text: string): string[] {
  return text
    .replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
    .split(/\n(?=\S)/)
    .map((statement) => statement.trim())
    .filter((statement) => statement !== '' && statement !== '}')
}

function isReExport(statement: string): boolean {
  return /^export (?:type )?\{[^}]*\} from /.test(statement)
}
