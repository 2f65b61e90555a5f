import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FuzzTarget } from '../../scripts/fuzzInputs.js'
import { describeFigures, fuzz } from '../../scripts/fuzzRun.js'
import { fuzzTargets } from '../../scripts/fuzzTargets.js'

const seed = 20_261_121
const rounds = 15

let folder: string
let targets: readonly FuzzTarget[]

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-fuzz-'))
  targets = await fuzzTargets(folder)
})

afterAll(async () => {
  for (const target of targets) await target.close?.()
  await rm(folder, { recursive: true, force: true })
})

test('whatever comes from outside is taken, or refused with the error that is promised', async () => {
  const told: string[] = []
  const figures = await fuzz(targets, {
    seed,
    goesOn: (round) => round < rounds,
    tell: (line) => void told.push(line),
    isHasty: true,
  })
  process.stdout.write([`seed ${seed}`, ...figures.map(describeFigures), ''].join('\n'))
  expect(
    figures.filter(({ errors }) => errors > 0),
    told.join('\n'),
  ).toEqual([])
  // Each part has been given something of both kinds: otherwise it would not have been tried.
  for (const { name, runs, refused } of figures) {
    expect(runs).toBe(rounds)
    expect(refused, name).toBeGreaterThan(0)
    expect(refused, name).toBeLessThan(rounds)
  }
})

test('an error that is not promised is told with the seed that leads to it', async () => {
  const told: string[] = []
  const broken = { name: 'broken', prepare: (at: number) => () => Promise.reject(new TypeError(`input ${at}`)) }
  const [figures] = await fuzz([broken], {
    seed: 7,
    goesOn: (round) => round < 2,
    tell: (line) => void told.push(line),
  })
  expect(figures).toMatchObject({ runs: 2, refused: 0, errors: 2 })
  expect(told.map((line) => line.split('\n')[0])).toEqual([
    'broken, seed 7: TypeError: input 7',
    'broken, seed 8: TypeError: input 8',
  ])
})
