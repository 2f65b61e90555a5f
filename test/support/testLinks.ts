import { readRepositoryFile } from './repositoryFiles.js'

/** A test that a page names: `[title](../test/….test.ts)`. */
export interface TestLink {
  readonly title: string
  readonly path: string
}

export function testLinksIn(text: string): TestLink[] {
  return [...text.matchAll(/\[((?:[^\]\\]|\\.)+)\]\((?:\.\.\/)+(test\/[\w/.]+\.ts)\)/g)].map(
    ([, title = '', path = '']) => ({
      title: title.replaceAll(/\\(.)/g, '$1'),
      path,
    }),
  )
}

/** Returns true if the file has a test of exactly this title, in any quotes. */
export function hasTest({ title, path }: TestLink): boolean {
  const text = readRepositoryFile(path)
  return ["'", '"', '`'].some((quote) => {
    const at = text.indexOf(`${quote}${title}${quote},`)
    return at > 0 && /[(\n] *$/.test(text.slice(0, at))
  })
}
