import { expect, test } from 'vitest'
import { chaosText, runChaos } from './runChaos.js'

const seed = Number(process.env['SEED'] ?? Math.floor(Math.random() * 1e6))
const awayAtStartMs = Number(process.env['AWAY_AT_START_SECONDS'] ?? 20) * 1000
const minutes = Number(process.env['MINUTES'] ?? 15)

test(`chaos for ${minutes} minutes: SEED=${seed}`, { timeout: (minutes + 10) * 60_000 }, async () => {
  console.log(`SEED=${seed} MINUTES=${minutes}`)
  const report = await runChaos({
    seed,
    durationMs: minutes * 60_000,
    awayAtStartMs,
    print: (line) => console.log(line),
  })
  console.log(chaosText(report))
  expect(report.tables.flatMap(({ wrong }) => wrong)).toEqual([])
  expect(report.gaps).toMatchObject({ recall: 1, wrong: [], falseClaims: [] })
  expect(report.rejectedRows).toBe(0)
  expect(report.exitCode).toBe(0)
  for (const { table, stored } of report.tables) expect(stored, table).toBeGreaterThan(0)
})
