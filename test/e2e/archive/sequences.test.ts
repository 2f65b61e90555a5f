import { expect, inject, test } from 'vitest'
import { runSequence } from '../../support/archiveSequence.js'

// npm run bench -- archive --only sequences goes on from any seed.
test.each([1, 2, 3, 2002, 2005])(
  'no row is lost, twice or changed once final, no claim lacks rows, and no lack is unnoted: seed %i',
  async (seed) => {
    expect(await runSequence(inject('testServer'), seed, 25)).toBe(null)
  },
)
