import { execFileSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { packageFile } from '../../src/runtime/process.js'
import { readRepositoryFile } from '../support/repositoryFiles.js'

const flat = (text: string) => text.replaceAll(/\s+/g, ' ')
const [, afterHeading = ''] = readRepositoryFile('README.md').split('## What you can rely on')
const [section = ''] = afterHeading.split('\n## ')
const facts = section.split(/^- /m).slice(1).map(flat)

describe('the facts of README', () => {
  test('are found', () => {
    expect(facts.length).toBeGreaterThan(2)
  })

  // Run the measurements again, or worlds, and README says what they printed then.
  test.each(facts)('has the figures of the page that it leads to: %s', (fact) => {
    const [, page = ''] = /\]\((docs\/[\w.]+)\)/.exec(fact) ?? []
    const source = flat(readRepositoryFile(page))
    const figures = [...fact.matchAll(/\*\*(.+?)\*\*/g)].map(([, text = '']) => text).filter((text) => /\d/.test(text))
    expect(figures.length).toBeGreaterThan(0)
    expect(
      figures.filter((figure) => !new RegExp(`(?<![\\d.,])${escaped(figure)}(?![\\d.,]*\\d)`).test(source)),
    ).toEqual([])
  })
})

test('README names the command that runs the tests, where CI looks for it', () => {
  expect(execFileSync('bash', [packageFile('.ci/readme'), 'tests'], { encoding: 'utf8' })).toBe('npm test\n')
})

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
}
