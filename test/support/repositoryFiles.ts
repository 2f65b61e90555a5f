import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Root folder of the repository, without a slash at its end. */
export const repositoryRoot = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

export interface RepositoryFile {
  /** Path from the root, with forward slashes. */
  readonly path: string
  readonly text: string
}

/** Every file that is, or would be, committed and whose path matches; the lock file is left out. Git is not needed. */
export function repositoryFiles(pattern: RegExp): RepositoryFile[] {
  return filesBelow('')
    .filter((path) => path !== 'package-lock.json' && pattern.test(path))
    .sort()
    .map((path) => ({ path, text: readRepositoryFile(path) }))
}

/** Patterns of `.gitignore`. One with a slash before its end is a path from the root, others are names at any depth. */
const ignored = readRepositoryFile('.gitignore')
  .split('\n')
  .map((line) => line.replace(/\/$/, ''))
  .filter((line) => line !== '')
  .map(
    (line) =>
      new RegExp(`${line.startsWith('/') ? '^' : '(^/|/)'}${line.replaceAll('.', '\\.').replaceAll('*', '[^/]*')}$`),
  )

function isIgnored(path: string): boolean {
  return ignored.some((pattern) => pattern.test(`/${path}`))
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(repositoryRoot, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.name === '.git' || isIgnored(path)) return []
    return entry.isDirectory() ? filesBelow(path) : [path]
  })
}

export function readRepositoryFile(path: string): string {
  return readFileSync(join(repositoryRoot, path), 'utf8')
}
