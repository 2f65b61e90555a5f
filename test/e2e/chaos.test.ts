import { expect, test } from 'vitest'
import { chaosText, runChaos } from '../chaos/runChaos.js'

/** The same accidents as in `npm run chaos`, in real time, as many as fit; what takes longer happens in simulated time. */
test('a series of accidents loses nothing that was durable, and hides nothing', { timeout: 1_800_000 }, async () => {
  const chosen = process.env['CI'] === undefined ? Math.floor(Math.random() * 1e6) : 361_804
  const seed = Number(process.env['SEED'] ?? chosen)
  const lines: string[] = []
  const report = await runChaos({
    seed,
    durationMs: 24_000,
    awayAtStartMs: 5_000,
    spacing: [800, 3_200],
    waitsForMinute: false,
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
