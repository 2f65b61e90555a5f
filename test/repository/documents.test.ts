import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { generatedFiles } from '../../scripts/generatedFiles.js'
import { commands } from '../../src/cli/program.js'
import { loadConfig } from '../../src/config/resolve.js'
import { readRepositoryFile, repositoryFiles, repositoryRoot } from '../support/repositoryFiles.js'

const pages = repositoryFiles(/\.md$/)

describe('generated files', () => {
  test('are what npm run docs would write', async () => {
    for (const [path, text] of await generatedFiles())
      expect(readRepositoryFile(path), `${path} is stale: run npm run docs`).toBe(text)
  })
})

describe('config/recorder.example.yaml', () => {
  const file = join(repositoryRoot, 'config/recorder.example.yaml')

  test('is the default configuration', () => {
    expect(loadConfig({ file, env: {} })).toEqual(loadConfig({ env: {} }))
  })

  test('names every option', () => {
    const schema = JSON.parse(readRepositoryFile('config/recorder.schema.json')) as SchemaNode
    // Options without a default stand in comments.
    const uncommented = readRepositoryFile('config/recorder.example.yaml').replaceAll(
      /^( *)# ( *\w+:(?: \{.*\})?)$/gm,
      '$1$2',
    )
    expect(namesIn(parse(uncommented))).toEqual(optionsIn(schema))
    expect(optionsIn(schema)).toContain('streams.candles.select.busiest')
  })
})

test('config/demo.yaml is valid', () => {
  expect(loadConfig({ file: join(repositoryRoot, 'config/demo.yaml'), env: {} }).serve.port).toBe(8080)
})

describe('links', () => {
  test('every relative link leads to a file, and to a heading in it', () => {
    expect(pages.length).toBeGreaterThan(4)
    const broken = pages.flatMap(({ path, text }) =>
      linksIn(text)
        .filter((link) => !/^[a-z]+:/.test(link))
        .filter((link) => !leadsSomewhere(path, link))
        .map((link) => `${path}: ${link}`),
    )
    expect(broken).toEqual([])
  })

  test('the checker finds broken ones', () => {
    expect(leadsSomewhere('README.md', 'LICENSE')).toBe(true)
    expect(leadsSomewhere('README.md', 'docs/nowhere.md')).toBe(false)
    expect(leadsSomewhere('README.md', 'docs/configuration.md#streams')).toBe(true)
    expect(leadsSomewhere('README.md', 'docs/configuration.md#nowhere')).toBe(false)
  })
})

describe('commands in the documentation', () => {
  const { scripts } = JSON.parse(readRepositoryFile('package.json')) as { scripts: Record<string, string> }

  test('every npm script exists', () => {
    const named = pages.flatMap(({ text }) =>
      [...text.matchAll(/npm run (?:--silent )?([\w:]+)/g)].map((match) => match[1] ?? ''),
    )
    expect(named.length).toBeGreaterThan(3)
    expect([...new Set(named)].filter((name) => !(name in scripts))).toEqual([])
  })

  test('every command of the program exists', () => {
    const names: readonly string[] = commands.map(({ name }) => name)
    const named = pages.flatMap(({ text }) =>
      [...text.matchAll(/npx market-recorder ([a-z]+)/g)].map((match) => match[1] ?? ''),
    )
    expect([...new Set(named)].filter((name) => !names.includes(name))).toEqual([])
  })
})

describe('the documentation is complete', () => {
  test('README lists every command', () => {
    const listed = [...readRepositoryFile('README.md').matchAll(/^\| `(\w+)`/gm)].map((match) => match[1] ?? '')
    const names: readonly string[] = commands.map(({ name }) => name)
    expect(listed.toSorted()).toEqual(names.toSorted())
  })

  test('the architecture page names every part of src', () => {
    const page = readRepositoryFile('docs/internals/architecture.md')
    const parts = new Set(repositoryFiles(/^src\//).map(({ path }) => path.split('/').slice(0, 2).join('/')))
    expect([...parts].filter((part) => !page.includes(part) && !page.includes(part.replace(/^src\//, '')))).toEqual([])
  })

  test.each([
    ['README.md', /^docs\/\w+\.md$/],
    ['CONTRIBUTING.md', /^docs\/internals\//],
  ])('%s leads to every page that matches %s', (from, which) => {
    const text = readRepositoryFile(from)
    const there = pages.map(({ path }) => path).filter((path) => which.test(path))
    expect(there.length).toBeGreaterThan(2)
    expect(there.filter((path) => !text.includes(`(${path})`))).toEqual([])
  })
})

interface SchemaNode {
  readonly properties?: Readonly<Record<string, SchemaNode>>
  readonly propertyNames?: { readonly enum: readonly string[] }
  readonly $ref?: string
  readonly $defs?: Readonly<Record<string, SchemaNode>>
}

function optionsIn(node: SchemaNode, root = node, prefix = ''): string[] {
  const { properties, propertyNames } = root.$defs?.[node.$ref?.split('/').at(-1) ?? ''] ?? node
  if (propertyNames) return propertyNames.enum.map((name) => `${prefix}${name}`)
  if (!properties) return [prefix.slice(0, -1)]
  return Object.entries(properties).flatMap(([key, child]) => optionsIn(child, root, `${prefix}${key}.`))
}

function namesIn(value: unknown, prefix = ''): string[] {
  return Object.entries(value as Record<string, unknown>).flatMap(([key, child]) =>
    typeof child === 'object' && child !== null && !Array.isArray(child)
      ? namesIn(child, `${prefix}${key}.`)
      : [`${prefix}${key}`],
  )
}

function linksIn(markdown: string): string[] {
  const prose = markdown.replaceAll(/```[\s\S]*?```|`[^`\n]*`/g, '')
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1] ?? '')
}

function leadsSomewhere(from: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? from : join(dirname(from), path)
  if (!existsSync(join(repositoryRoot, target))) return false
  return anchor === undefined || headingsIn(readRepositoryFile(target)).includes(anchor)
}

/** Anchors as GitHub makes them. */
function headingsIn(markdown: string): string[] {
  return [...markdown.matchAll(/^#+ (.*)$/gm)].map((match) =>
    (match[1] ?? '')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .trim()
      .replaceAll(/\s/g, '-'),
  )
}
