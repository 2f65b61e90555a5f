import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { fuzzTargets } from './fuzzTargets.js'

/**
 * `npm run fuzz -- --minutes 10 [--seed 1]`: feeds what comes from outside with random and broken input until the time is over.
 * A failure is any error but the one that the part promises, or a stall: more than 250 ms of processor time between two turns
 * of the event loop. Processor time, because on a busy machine the clock says more about the others.
 */
const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, seed: { type: 'string', default: String(Date.now() % 1e9) } },
})
const minutes = Number(values.minutes)
const seed = Number(values.seed)
const mostStallMs = 250
const warmUpRuns = 50

const folder = await mkdtemp(join(tmpdir(), 'market-recorder-fuzz-'))
const targets = await fuzzTargets(folder)
const figures = targets.map(({ name }) => ({ name, runs: 0, refused: 0, failures: 0, longestMs: 0 }))
const endMs = performance.now() + minutes * 60_000
let longestTurnMs = 0
let lastCpuMs = cpuMs()
const turns = setInterval(() => {
  const nowMs = cpuMs()
  longestTurnMs = Math.max(longestTurnMs, nowMs - lastCpuMs)
  lastCpuMs = nowMs
}, 5)

function cpuMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

try {
  for (let run = 0; performance.now() < endMs; run++) {
    for (const [index, target] of targets.entries()) {
      const figure = figures[index]
      if (figure === undefined) continue
      const runSeed = seed + run
      const give = target.prepare(runSeed)
      await nextTurn()
      longestTurnMs = 0
      lastCpuMs = cpuMs()
      try {
        if ((await give()) === 'refused') figure.refused += 1
      } catch (error) {
        figure.failures += 1
        process.stderr.write(
          `${target.name}, seed ${runSeed}: ${error instanceof Error ? error.stack : String(error)}\n`,
        )
      }
      longestTurnMs = Math.max(longestTurnMs, cpuMs() - lastCpuMs)
      figure.runs += 1
      // Compiling takes its time once.
      if (run < warmUpRuns) continue
      if (longestTurnMs > mostStallMs) {
        process.stderr.write(
          `${target.name}, seed ${runSeed}: ${longestTurnMs.toFixed(0)} ms without a turn for others\n`,
        )
        figure.failures += 1
      }
      figure.longestMs = Math.max(figure.longestMs, longestTurnMs)
    }
  }
} finally {
  clearInterval(turns)
  for (const target of targets) await target.close?.()
  await rm(folder, { recursive: true, force: true })
}
console.log(`seed ${seed}, ${minutes} minutes, ${(process.memoryUsage.rss() / 1e6).toFixed(0)} MB at the end`)
for (const { name, runs, refused, failures, longestMs } of figures) {
  console.log(
    `${name.padEnd(14)} ${runs} runs, ${refused} refused, ${failures} failures, longest turn ${longestMs.toFixed(0)} ms of processor time`,
  )
}
process.exitCode = figures.some(({ failures }) => failures > 0) ? 1 : 0
