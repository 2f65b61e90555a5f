import { expect, test } from 'vitest'
import { readRepositoryFile, repositoryFiles } from '../support/repositoryFiles.js'

const rows = readRepositoryFile('docs/internals/words.md')
  .split('\n')
  .filter((line) => line.startsWith('| ') && line.includes('`'))
/** What the right column names: a word, or with … the beginning of a name. */
const replaced = rows.flatMap((row) => {
  const [, , instead = ''] = row.split('|')
  const isName = instead.includes('as a name')
  return [...instead.matchAll(/`([^`]+)`/g)].map(([, word = '']) => ({ word, pattern: patternOf(word, isName) }))
})

function patternOf(word: string, isName: boolean): RegExp {
  if (word.endsWith('…')) return new RegExp(`\\b${word.slice(0, -1)}[A-Z]\\w*`)
  // Declared, called, or a parameter with its type; not a word of a text.
  if (isName) return new RegExp(`\\b(?:const|let) ${word}\\b|\\b${word}\\(|\\(${word}: [A-Za-z'(]`)
  // Names are made of words, too: an emptyAnswer holds one.
  const capital = `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`
  return new RegExp(`\\b(?:${word}|${capital})\\b|[a-z]${capital}(?:s|ed)?(?![a-z])|\\b${word}[A-Z]`)
}

const read = repositoryFiles(
  /^(?:src|migrations|bench|scripts|docs|config)\/.*\.(?:tsx?|sql|md|ya?ml|json|css|html)$|^[A-Z]+\.md$/,
).filter(({ path }) => path !== 'docs/internals/words.md')

test('the glossary names words that it replaces', () => {
  expect(replaced.length).toBeGreaterThan(8)
})

test.each(replaced)('nothing says "$word"', ({ pattern }) => {
  const found = read.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
  )
  expect(found).toEqual([])
})

test.each([
  ['response', 'an answer of the service', 'answer'],
  ['a name', 'const emptyAnswer = 1', 'answer'],
  ['another', 'useAnswer(question)', 'answer'],
  ['a participle', 'shareAnswered(requests)', 'answer'],
  ['max', 'const mostRows = 5', 'most…'],
])('the search finds what stands for %s', (_word, text, word) => {
  expect(replaced.find((entry) => entry.word === word)?.pattern.test(text)).toBe(true)
})

test.each([
  ['unanswered', 'answer'],
  ['the whole of it', 'hole'],
  ['at most five', 'most…'],
])('the search leaves "%s" alone', (text, word) => {
  expect(replaced.find((entry) => entry.word === word)?.pattern.test(text)).toBe(false)
})
