import { posix } from 'node:path'
import { expect, test } from 'vitest'
import { readRepositoryFile, repositoryFiles } from '../support/repositoryFiles.js'

const [build = ''] = readRepositoryFile('Dockerfile').split('FROM ${RUNTIME_IMAGE}')
const copied = [...build.matchAll(/^COPY (.+) \S+$/gm)].flatMap(([, sources = '']) => sources.split(' '))
const allowed = readRepositoryFile('.dockerignore')
  .split('\n')
  .flatMap((line) => (line.startsWith('!') ? [line.slice(1)] : []))

test('what the image is built of is not kept from the build', () => {
  expect(copied.length).toBeGreaterThan(5)
  expect(copied.filter((path) => !allowed.includes(path))).toEqual([])
})

test('the image is built with everything that what is built imports', () => {
  const { include } = JSON.parse(readRepositoryFile('tsconfig.build.json')) as { include: string[] }
  const isCopied = (path: string) => copied.some((folder) => path === folder || path.startsWith(`${folder}/`))
  const missing = repositoryFiles(/\.tsx?$/)
    .filter(({ path }) => include.some((folder) => path.startsWith(`${folder}/`)))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/from '(\.[^']+)'/g)].map(([, target = '']) => posix.join(posix.dirname(path), target)),
    )
    .filter((target) => !isCopied(target))
  expect([...new Set(missing)]).toEqual([])
})
