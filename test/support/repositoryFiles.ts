import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import picomatch from 'picomatch'

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

/** A line of `.gitignore` with a slash before its end is a path from the root. Others are names at any depth. */
const isIgnored = picomatch(
  readRepositoryFile('.gitignore')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.replace(/\/$/, ''))
    .map((line) => (line.startsWith('/') ? line.slice(1) : `**/${line}`)),
  { dot: true },
)

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
