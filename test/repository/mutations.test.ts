import { expect, test } from 'vitest'
import { readRepositoryFile } from '../support/repositoryFiles.js'
import { mutations } from '../simulation/mutations.js'

test('every known mistake can still be made: the source holds its place once', () => {
  const lost = mutations.filter(({ file, find }) => readRepositoryFile(file).split(find).length !== 2)
  expect(lost.map(({ name, file }) => `${name}: ${file}`)).toEqual([])
  expect(mutations.length).toBeGreaterThanOrEqual(20)
  expect(mutations.filter(({ find, replace }) => find === replace)).toEqual([])
})
