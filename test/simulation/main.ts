// First: it replaces what others take when they are loaded.
import { real } from './machine.js'
import { parseArgs } from 'node:util'
import { completenessText } from './completeness.js'
import { startWorldServer } from './server.js'
import { minimised } from './minimise.js'
import { planText, runWorld, type WorldReport } from './world.js'
import { planWorld } from './worldPlan.js'

/**
 * `npm run worlds -- --seed 7`: recorders, service, database, network and disks in simulated time, with everything that
 * goes wrong drawn from a seed. The same seed is the same world, event by event.
 */
const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: '1' },
    /** How many seeds, from the first one on; 0: until stopped. */
    seeds: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '30' },
    /** Only these of the seed's faults, by their places, from 0. */
    faults: { type: 'string' },
    /** A market of so many instruments instead of the seed's, with two faults an hour, and how complete it is in the end. */
    instruments: { type: 'string' },
    /** Fills an hour of the busiest of them. */
    busiest: { type: 'string', default: '3600' },
    trace: { type: 'boolean', default: false },
    /** Show what a run can be compared by. */
    hash: { type: 'boolean', default: false },
    /** Look for the fewest faults with which a world still goes wrong, in at most so many attempts. */
    minimise: { type: 'string', default: '0' },
    'stop-at-first': { type: 'boolean', default: false },
    /** Run each world twice, and say whether both were the same, event by event. */
    twice: { type: 'boolean', default: false },
  },
})
const minutes = Number(values.minutes)
const market =
  values.instruments === undefined
    ? {}
    : { market: { instruments: Number(values.instruments), busiestPerHour: Number(values.busiest) } }
const first = Number(values.seed)
const count = Number(values.seeds)
const say = (line: string) => void process.stdout.write(`${line}\n`)

const server = await startWorldServer()
const stopping = new AbortController()
process.once('SIGINT', () => stopping.abort())
const last = count === 0 ? Infinity : first + count - 1
const startedMs = real.monotonicMs()
let [worlds, failed, simulatedMs] = [0, 0, 0]
try {
  for (let seed = first; seed <= last && !stopping.signal.aborted; seed++) {
    const report = await runWorld(server, {
      seed,
      minutes,
      ...market,
      ...(values.faults === undefined ? {} : { faults: chosenFaults(seed, values.faults) }),
      ...(values.trace ? { onTrace: say } : {}),
    })
    worlds++
    simulatedMs += report.simulatedMs
    say(reportText(report))
    if (report.completeness !== undefined) say(`seed ${seed}: ${completenessText(report.completeness)}`)
    if (values.twice) {
      const again = await runWorld(server, { seed, minutes, ...market })
      const isSame = again.traceHash === report.traceHash
      say(`seed ${seed}: the second time ${isSame ? 'the same' : 'ANOTHER'} world`)
      if (!isSame) failed++
    }
    if (report.violations.length > 0) {
      failed++
      const fewest = await minimised(report, Number(values.minimise), (faults) =>
        runWorld(server, { seed, minutes, faults, ...market }),
      )
      for (const line of planText(fewest.plan)) say(`  ${line}`)
      for (const line of fewest.violations) say(`  VIOLATION ${line}`)
      const all = planWorld(seed, minutes).faults.map((fault) => JSON.stringify(fault))
      const places = fewest.plan.faults.map((fault) => all.indexOf(JSON.stringify(fault)))
      const only = places.length === all.length ? '' : ` --faults "${places.join(',')}"`
      say(`  npm run worlds -- --seed ${seed} --minutes ${minutes}${only} --trace`)
      if (values['stop-at-first']) break
    }
  }
} finally {
  await server.stop()
}
const hours = (real.monotonicMs() - startedMs) / 3_600_000
say(
  `${worlds} seeds, ${failed} with violations; ${Math.round(worlds / hours)} seeds an hour, ${Math.round(simulatedMs / 3_600_000 / hours)} simulated seconds a second`,
)
process.exitCode = failed > 0 ? 1 : 0

function chosenFaults(seed: number, places: string) {
  const wanted = new Set(places.split(',').filter(Boolean).map(Number))
  return planWorld(seed, minutes).faults.filter((_, place) => wanted.has(place))
}

function reportText(report: WorldReport): string {
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
    ...(values.hash ? [report.traceHash] : []),
  ]
  return `seed ${seed}: ${violations.length === 0 ? 'in order' : 'WRONG'}; ${figures.join(', ')}`
}
