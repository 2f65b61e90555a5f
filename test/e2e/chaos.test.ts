import { expect, test } from 'vitest'
import { chaosText, runChaos } from '../chaos/runChaos.js'

/** The short form of `npm run chaos`: the same accidents, as many as fit. */
test('a minute of accidents loses nothing that was durable, and hides nothing', async () => {
  const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e6))
  const lines: string[] = []
  const report = await runChaos({
    seed,
    durationMs: 60_000,
    awayAtStartMs: 8_000,
    spacing: [2_000, 8_000],
    print: (line) => lines.push(line),
  })
  const told = `seed ${seed}\n${lines.join('\n')}\n${chaosText(report)}`
  expect(
    report.tables.flatMap(({ wrong }) => wrong),
    told,
  ).toEqual([])
  expect(report.gaps, told).toMatchObject({ recall: 1, wrong: [], falseClaims: [] })
  expect(report.rejectedRows, told).toBe(0)
  expect(report.exitCode, told).toBe(0)
})
