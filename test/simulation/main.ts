// First: it replaces what others take when they are loaded.
import { real } from './machine.js'
import { messageOf } from '../../src/runtime/text.js'
import { completenessText } from './completeness.js'
import { minimised } from './minimise.js'
import { commandFor, marketOf, type WorldsOptions, worldsOptions } from './options.js'
import { startWorldServer, type WorldServer } from './server.js'
import { planText, runWorld, type WorldReport, worldPlan } from './world.js'

const say = (line: string) => void process.stdout.write(`${line}\n`)

/** `npm run worlds -- --seed 7`: worlds in simulated time, one after the other. */
const options = worldsOptions(process.argv.slice(2))
process.exitCode = typeof options === 'number' ? options : await runWorlds(options).catch(tellError)

function tellError(error: unknown): number {
  process.stderr.write(`error: ${messageOf(error).replaceAll(/\s*\n\s*/g, ' ')}\n`)
  return 1
}

async function runWorlds(asked: WorldsOptions): Promise<number> {
  const last = asked.seeds === 0 ? Infinity : asked.seed + asked.seeds - 1
  const server = await startWorldServer()
  const stopping = new AbortController()
  process.once('SIGINT', () => stopping.abort())
  const startedMs = real.monotonicMs()
  let [worlds, failed, simulatedMs] = [0, 0, 0]
  try {
    for (let seed = asked.seed; seed <= last && !stopping.signal.aborted; seed++) {
      const report = await runSeed(server, asked, seed)
      worlds++
      simulatedMs += report.simulatedMs
      if (report.isInOrder) continue
      failed++
      if (asked.stopAtFirst) break
    }
  } finally {
    await server.stop()
  }
  const hours = (real.monotonicMs() - startedMs) / 3_600_000
  say(
    `${worlds} seeds, ${failed} with violations; ${Math.round(worlds / hours)} seeds an hour, ${Math.round(simulatedMs / 3_600_000 / hours)} simulated seconds a second`,
  )
  return failed > 0 ? 1 : 0
}

async function runSeed(server: WorldServer, asked: WorldsOptions, seed: number) {
  const { minutes, trace, twice, minimise } = asked
  const world = { seed, minutes, ...marketOf(asked) }
  const { faults: all } = worldPlan(world)
  const faults = asked.faults === undefined ? all : all.filter((_, place) => asked.faults?.includes(place))
  const report = await runWorld(server, {
    ...world,
    faults,
    onHour: (line) => say(`seed ${seed}: ${line}`),
    ...(trace && { onTrace: say }),
  })
  say(reportText(report, asked.hash))
  if (report.completeness !== undefined) say(`seed ${seed}: ${completenessText(report.completeness)}`)
  let isInOrder = report.violations.length === 0
  if (twice) {
    const again = await runWorld(server, { ...world, faults })
    const isSame = again.traceHash === report.traceHash
    say(`seed ${seed}: the second time ${isSame ? 'the same' : 'ANOTHER'} world`)
    isInOrder &&= isSame
  }
  if (report.violations.length > 0) {
    const fewest = await minimised(report, minimise, (fewer) => runWorld(server, { ...world, faults: fewer }))
    for (const line of planText(fewest.plan)) say(`  ${line}`)
    for (const line of fewest.violations) say(`  VIOLATION ${line}`)
    const places = fewest.plan.faults.map((fault) => all.indexOf(fault))
    say(`  ${places.length === all.length ? commandFor(asked, seed) : commandFor(asked, seed, places)}`)
  }
  return { isInOrder, simulatedMs: report.simulatedMs }
}

function reportText(report: WorldReport, withHash: boolean): string {
  const { seed, plan, violations, arrivals, statements, fills, gaps, lostFills, mostBatches } = report
  const figures = [
    `${plan.faults.length} faults`,
    `${arrivals} requests`,
    `${statements} statements`,
    `${fills} fills`,
    `${gaps} gaps`,
    `${lostFills} lost`,
    `at most ${mostBatches} waiting`,
    `${(report.realMs / 1000).toFixed(1)} s for ${Math.round(report.simulatedMs / 1000)} s`,
    ...(withHash ? [report.traceHash] : []),
  ]
  return `seed ${seed}: ${violations.length === 0 ? 'in order' : 'WRONG'}; ${figures.join(', ')}`
}
