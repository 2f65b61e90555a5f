import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Root folder of the repository, without a slash at its end. */
export const repositoryRoot = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

export interface RepositoryFile {
  /** Path from the root, with forward slashes. */
  readonly path: string
  readonly text: string
}

/** Every file that is, or would be, committed and whose path matches; the lock file is left out. */
export function repositoryFiles(pattern: RegExp): RepositoryFile[] {
  const listing = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: repositoryRoot,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })
  return [...new Set(listing.split('\0'))]
    .filter((path) => path !== '' && path !== 'package-lock.json' && pattern.test(path))
    .filter((path) => existsSync(join(repositoryRoot, path)))
    .sort()
    .map((path) => ({ path, text: readRepositoryFile(path) }))
}

export function readRepositoryFile(path: string): string {
  return readFileSync(join(repositoryRoot, path), 'utf8')
}
