import { spawnSync } from 'node:child_process'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { readRepositoryFile, repositoryFiles, repositoryRoot } from '../support/repositoryFiles.js'

interface Package {
  readonly name: string
  readonly license: string
  readonly type: string
  readonly engines: { readonly node: string }
  readonly bin: Readonly<Record<string, string>>
  readonly scripts: Readonly<Record<string, string>>
  readonly allowScripts: Readonly<Record<string, boolean>>
}
interface LockedPackage {
  readonly hasInstallScript?: boolean
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const manifest = JSON.parse(readRepositoryFile('package.json')) as Package
const lock = JSON.parse(readRepositoryFile('package-lock.json')) as { packages: Record<string, LockedPackage> }

test('package.json says what the project is', () => {
  expect(manifest).toMatchObject({
    name: 'market-recorder',
    license: 'Apache-2.0',
    type: 'module',
    engines: { node: '>=20.19' },
    bin: { 'market-recorder': 'dist/program/main.js' },
  })
  expect(readRepositoryFile('LICENSE')).toContain('Apache License')
  expect(Object.keys(manifest.scripts)).toEqual(
    expect.arrayContaining(['build', 'check', 'test', 'bench', 'docs', 'demo', 'format']),
  )
})

test('no package runs a script when it is installed, except the ones that are allowed to', () => {
  const withScript = Object.entries(lock.packages)
    .filter(([path, { hasInstallScript }]) => path !== '' && hasInstallScript === true)
    .map(([path]) => path.replace(/^.*node_modules\//, ''))
  const isAllowed = (name: string) =>
    name in manifest.allowScripts || Object.keys(manifest.allowScripts).some(sameScope(name))
  expect(withScript.filter((name) => !isAllowed(name))).toEqual([])
})

test('the lock file names the builds for all platforms, or npm ci fails where one is not at hand', () => {
  const missing = Object.entries(lock.packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => !isLocked(path, name)),
  )
  expect(missing).toEqual([])
})

test('every migration is listed, in the order of its number', () => {
  const files = repositoryFiles(/^migrations\/\d.*\.ts$/).map(({ path }) => basename(path, '.ts'))
  expect(new Set(files.map((name) => name.slice(0, 4))).size).toBe(files.length)
  const listing = repositoryFiles(/^src\/db\/.*\.ts$/)
    .map(({ text }) => [...text.matchAll(/from '.*\/(\d{4}_\w+)\.js'/g)].map((match) => match[1]))
    .find((names) => names.length > 0)
  expect(listing).toEqual(files)
})

/** Whether the package at `path` finds `name`, in its own folder or in one above. */
function isLocked(path: string, name: string): boolean {
  const folders = [path, path.replace(/(?:^|\/)node_modules\/(?!.*node_modules\/).*$/, '')]
  return folders.some((folder) => `${folder === '' ? '' : `${folder}/`}node_modules/${name}` in lock.packages)
}

/** A package of the same scope and kind, built for another platform. */
function sameScope(name: string) {
  return (allowed: string) => name.startsWith('@') && allowed.split('/')[0] === name.split('/')[0]
}

test('the changelog says what this version brings', () => {
  const { version } = JSON.parse(readRepositoryFile('package.json')) as { version: string }
  const script = join(repositoryRoot, 'scripts/releaseNotes.mjs')
  const notes = (of: string) => spawnSync(process.execPath, [script, of], { cwd: repositoryRoot, encoding: 'utf8' })
  expect(notes(version)).toMatchObject({ status: 0, stderr: '' })
  expect(notes(version).stdout.length).toBeGreaterThan(200)
  expect(notes('99.0.0').status).toBe(1)
})
