import { expect, test } from 'vitest'
import { archiverArguments } from '../../../src/cli/start.js'

const dayMs = 86_400_000

test.for([
  ['shows the same time', 0, true],
  ['shows another time', -dayMs, false],
  ['is not known', null, false],
] as const)("the archiver removes only when the service's clock agrees: it %s", ([, aheadMs, isRemoving]) => {
  const given = archiverArguments('data', aheadMs === null ? null : Date.now() + aheadMs)
  expect(given).toEqual(['archive', ...(isRemoving ? ['--remove'] : []), '--config', '-', '--data-dir', 'data'])
})
