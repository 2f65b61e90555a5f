import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { Assignment } from '../src/collect/fleet/assignment.js'
import { fleetDemand } from '../src/collect/fleet/fleetDemand.js'
import { planFleet } from '../src/collect/fleet/fleetPlan.js'
import { type Demand, reassign } from '../src/collect/fleet/reassign.js'
import type { FleetMember } from '../src/lease/fleetState.js'
import { assumedUniverse, type PlanUniverse } from '../src/collect/universe/planUniverse.js'
import type { Config } from '../src/config/resolve.js'
import { loadConfig } from '../src/config/load.js'
import { type Check, median } from './figures.js'

const sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000] as const
/** What a recorder holds open: its pool, that of the writers, the page's, the lock and the worker of the past. */
const connectionsOf = ({ database, collector }: Config) =>
  database.poolSize + collector.maxInFlightWrites * 2 + 4 + 1 + 1
/** Heartbeats and looks: one statement a second from each. */
const statementsPerSecond = 1

/** How assignments behave from one address to a thousand, and what so many record. Arithmetic and the real functions, no load. */
export async function benchScale(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: { simulate: { type: 'boolean', default: false }, books: { type: 'string', default: '1' } },
  })
  if (!values.simulate)
    throw new Error('say --simulate: nothing but a simulation is there, and fleet measures real recorders')
  const config = loadConfig({ env: {} })
  // Made only while a recorder's own fills need them: with several addresses hardly ever.
  config.streams.tickers.watchSeconds = 0
  config.streams.orderBooks.everySeconds = Number(values.books)
  const universe = assumedUniverse()
  const demand = fleetDemand(config, universe)
  const rows = sizes.map((size) => measure(size, config, universe, demand))
  console.log(
    `${universe.instruments.length} instruments as the live service was seen to list them, order books every ` +
      `${values.books} s, ${demand.length} instruments of streams`,
  )
  console.log(assignmentTable(rows))
  console.log(recordingTable(rows))
  const checks: Check[] = [
    check('most that a join moves, of its fair share', Math.max(...rows.slice(1).map(({ joined }) => joined)), 1.2),
    check('moved between the others by a join', Math.max(...rows.map(({ sideways }) => sideways)), 0),
    check('moved by a leave besides its own', Math.max(...rows.map(({ others }) => others)), 0),
    check('seconds for an assignment to 1,000', (rows.at(-1)?.ms ?? Infinity) / 1000, 5),
  ]
  const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
  for (const { what, measured, target, isMet } of checks) table.push([what, measured, target, isMet ? 'ok' : 'MISSED'])
  console.log(table.toString())
  return Promise.resolve(checks.every(({ isMet }) => isMet) ? 0 : 1)
}

function check(what: string, value: number, max: number): Check {
  return { what, measured: value.toFixed(2), target: `<= ${max}`, isMet: value <= max }
}

type Row = ReturnType<typeof measure>

function measure(size: number, config: Config, universe: PlanUniverse, demand: readonly Demand[]) {
  const members = Array.from({ length: size }, (_, index): FleetMember => ({ egress: `egress-${index}`, weight: 6000 }))
  const nobody = new Assignment({ members: [], placements: [] })
  const times: number[] = []
  let assignment = nobody
  for (let round = 0; round < 3; round++) {
    const startedMs = performance.now()
    assignment = reassign(nobody, members, demand)
    times.push(performance.now() - startedMs)
  }
  const ownersIn = (assignment: Assignment) => demand.map(({ stream, key }) => assignment.ownerOf(stream, key))
  const before = ownersIn(assignment)
  const newcomer: FleetMember = { egress: 'newcomer', weight: 6000 }
  const joinedMs = performance.now()
  const withNewcomer = reassign(assignment, [...members, newcomer], demand)
  const joinMs = performance.now() - joinedMs
  const afterJoin = ownersIn(withNewcomer)
  const taken = afterJoin.filter((owner) => owner === newcomer.egress).length
  const sideways = afterJoin.filter((owner, index) => owner !== before[index] && owner !== newcomer.egress).length
  const gone = members[0]?.egress
  const afterLeave = size === 1 ? before : ownersIn(reassign(assignment, members.slice(1), demand))
  const others = afterLeave.filter((owner, index) => owner !== before[index] && before[index] !== gone).length
  const loads = new Map<string, number>()
  for (const [index, { stream, perSecond }] of demand.entries()) {
    if (stream !== 'order_books') continue
    const owner = before[index] ?? ''
    loads.set(owner, (loads.get(owner) ?? 0) + perSecond)
  }
  const total = [...loads.values()].reduce((sum, load) => sum + load, 0)
  const plan = planFleet(config, universe, size)
  return {
    size,
    ms: median(times),
    joinMs,
    joined: taken / (demand.length / (size + 1)),
    sideways,
    others,
    placed: assignment.placements.length,
    worst: Math.max(...loads.values()) / (total / size),
    requestsPerSecond: plan.overall.requestsPerSecond,
    rowsPerSecond: plan.streams.reduce((sum, { rowsPerDay }) => sum + rowsPerDay, 0) / 86_400,
    bytesPerDay: plan.bytesPerDay,
    compressedBytesPerDay: plan.compressedBytesPerDay,
    leftOut: plan.streams.reduce((sum, { leftOut }) => sum + leftOut.limits, 0),
    connections: size * connectionsOf(config),
    statements: size * statementsPerSecond,
  }
}

function assignmentTable(rows: readonly Row[]): string {
  const head = ['addresses', 'assignment', 'a join', 'joiner takes', 'placed', 'busiest books', 'moved besides']
  const table = new Table({ head, style: { head: [], border: [] } })
  for (const row of rows) {
    table.push([
      row.size,
      `${row.ms.toFixed(0)} ms`,
      `${row.joinMs.toFixed(0)} ms`,
      `${row.joined.toFixed(2)} of fair`,
      row.placed,
      `${row.worst.toFixed(2)} of fair`,
      row.sideways + row.others,
    ])
  }
  return table.toString()
}

function recordingTable(rows: readonly Row[]): string {
  const head = ['addresses', 'requests/s', 'rows/s', 'GB/day', 'compressed', 'left out', 'connections', 'beats/s']
  const table = new Table({ head, style: { head: [], border: [] } })
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(0)
  for (const row of rows) {
    table.push([
      row.size,
      row.requestsPerSecond.toFixed(0),
      row.rowsPerSecond.toFixed(0),
      gigabytes(row.bytesPerDay),
      gigabytes(row.compressedBytesPerDay),
      row.leftOut,
      row.connections,
      row.statements,
    ])
  }
  return table.toString()
}
