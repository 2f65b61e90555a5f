import type { Fault } from '../../src/simulator/faults.js'
import type { Service } from '../../src/simulator/service.js'
import type { DeadTime } from '../chaos/compareTables.js'
import type { SimulatedDatabase } from './driver.js'
import { droppedWithoutNote, type PlannedFault, faultText } from './faultPlan.js'
import { clearWay } from './network.js'
import type { SimulatedMachine } from './simulatedMachine.js'
import type { VirtualTime } from './virtualTime.js'

export interface FaultTargets {
  readonly faults: readonly PlannedFault[]
  readonly machines: readonly SimulatedMachine[]
  readonly service: Service
  readonly database: SimulatedDatabase
  readonly time: VirtualTime
  readonly epochMs: number
  readonly trace: (line: string) => void
  /** Collects the times in which a machine was dead. */
  readonly deadTimes: DeadTime[]
}

/** Lets every fault begin and end at its time. */
export function applyFaults({
  faults,
  machines,
  service,
  database,
  time,
  epochMs,
  trace,
  deadTimes,
}: FaultTargets): void {
  const active = new Set<PlannedFault>()
  const now = () => epochMs + time.nowMs
  const ended = (machine: number) => {
    const dropped = droppedWithoutNote(faults, { machine, endedMs: time.nowMs })
    if (dropped !== null) deadTimes.push({ from: epochMs + dropped.fromMs, to: epochMs + dropped.toMs })
  }
  /** States follow from all faults that are in force: two may overlap. */
  const settle = () => {
    for (const [index, machine] of machines.entries()) {
      Object.assign(machine.way, clearWay())
      Object.assign(machine.link, { state: 'up', slowMs: 0, refusal: undefined })
      Object.assign(machine.diskState, { isFull: false, syncMs: 0, readFailure: undefined })
      for (const fault of active) if (fault.machine === index || isOfServer(fault)) spoil(machine, fault)
    }
  }
  /** Crashes a recorder, and starts it again after a moment; it has lived for longer each time, up to some seconds. */
  const crashAgain = async (fault: PlannedFault, machine: SimulatedMachine, count: number): Promise<void> => {
    if (!active.has(fault)) return
    const downMs = 200 + fault.size * 1_000
    deadTimes.push({ from: now() - stoodStillMs(faults, { ...fault, atMs: time.nowMs }), to: now() + downMs })
    ended(fault.machine)
    await machine.crash()
    time.after(downMs, () => machine.start())
    time.after(downMs + 300 + (count % 8) * 900 * fault.size, () => crashAgain(fault, machine, count + 1))
  }
  for (const fault of faults) {
    const machine = machines[fault.machine] as SimulatedMachine
    time.after(fault.atMs, async () => {
      trace(`FAULT ${faultText(fault)}`)
      active.add(fault)
      settle()
      const hit = serviceFault(fault)
      if (hit !== null) service.control.addFault({ ...hit, toMs: now() + fault.forMs })
      const isOfMachine = ({ link }: { link: object }) => link === machine.link
      if (isOfServer(fault)) database.sever(({ link }) => machines.some((one) => one.link === link))
      if (fault.what === 'database severed') database.sever(isOfMachine)
      if (fault.what === 'machine suspended') machine.suspend(fault.forMs)
      if (fault.what === 'crash') {
        const from = now() - stoodStillMs(faults, fault)
        deadTimes.push({ from, to: now() + fault.forMs, slowestMs: slowestSyncMs(faults, fault) })
        ended(fault.machine)
        await machine.crash()
      }
      if (fault.what === 'crash loop') await crashAgain(fault, machine, 0)
      if (fault.what === 'restart') void machine.stop().then(() => ended(fault.machine))
      if (fault.what === 'clock jump') machine.setClock((fault.size - 0.5) * 20_000)
    })
    time.after(fault.atMs + fault.forMs, () => {
      trace(`over: ${fault.what}, machine ${fault.machine}`)
      active.delete(fault)
      settle()
      if (['crash', 'restart', 'crash loop'].includes(fault.what)) machine.start()
    })
  }
}

/**
 * Returns true if the fault meets all machines. A refused connection tells a recorder that there is no server, and it
 * relies on that (src/lease/lease.ts). No promise covers one that is refused while others are not.
 */
function isOfServer({ what }: PlannedFault): boolean {
  return what === 'database refused'
}

function spoil({ way, link, diskState }: SimulatedMachine, { what, size }: PlannedFault): void {
  if (what === 'network cut') way.isCut = true
  else if (what === 'network loss') way.lossShare = size / 2
  else if (what === 'network resets') way.resetShare = size / 2
  else if (what === 'network slow') way.slowMs = size * 4_000
  else if (what === 'service refused') way.isRefused = true
  else if (what === 'resolver silent') way.isUnresolved = true
  else if (what === 'database refused') link.state = 'refused'
  else if (what === 'database silent') link.state = link.state === 'refused' ? 'refused' : 'silent'
  else if (what === 'database slow') link.slowMs = size ** 2 * 4_000
  else if (what === 'database refusing') link.refusal = oneOf(refusals, size)
  else if (what === 'disk full') diskState.isFull = true
  else if (what === 'disk slow') diskState.syncMs = syncMsOf(size)
  else if (what === 'disk read errors') diskState.readFailure = size < 0.5 ? 'EMFILE' : 'EIO'
}

/** Errors of a database with another schema, trigger, right or extension than the recorder's: no row is to blame. */
const refusals = ['42P10', '42703', '42P01', '42501', '23502', 'P0001', '0A000', '55006', '54000', 'HV000'] as const

function oneOf<Value>(values: readonly Value[], size: number): Value {
  return values[Math.min(values.length - 1, Math.floor(size * values.length))] as Value
}

/** How long the machine that crashes had been suspended. Nothing ran in that time. */
function stoodStillMs(faults: readonly PlannedFault[], crash: PlannedFault): number {
  const suspensions = faults.filter(
    ({ what, machine, atMs, forMs }) =>
      what === 'machine suspended' && machine === crash.machine && atMs < crash.atMs && atMs + forMs > crash.atMs,
  )
  return crash.atMs - Math.min(crash.atMs, ...suspensions.map(({ atMs }) => atMs))
}

/** The longest sync of the disk of the machine that crashes, in the time that may be lost. */
function slowestSyncMs(faults: readonly PlannedFault[], crash: PlannedFault): number {
  const fromMs = crash.atMs - withinReachMs
  const slow = faults.filter(
    ({ what, machine, atMs, forMs }) =>
      what === 'disk slow' && machine === crash.machine && atMs < crash.atMs && atMs + forMs > fromMs,
  )
  return Math.max(0, ...slow.map(({ size }) => syncMsOf(size)))
}

/** Data older than this at a crash was on the disk, however slow that was. */
const withinReachMs = 6_000

function syncMsOf(size: number): number {
  return size * 1_000
}

/** Faults of the service itself. */
function serviceFault({ what, size }: PlannedFault): Fault | null {
  const probability = Math.max(0.05, size)
  if (what === 'service errors') return { kind: 'http', status: size < 0.5 ? 503 : 502, probability }
  if (what === 'service garbage') return size < 0.5 ? { kind: 'html', probability } : { kind: 'emptyBody', probability }
  if (what === 'service torn bodies') return { kind: 'tornBody', probability }
  if (what === 'service trickles') return { kind: 'slowBody', overMs: Math.round(size * 8_000), probability }
  // One list alone: cut off twice in the same way, it counts.
  if (what === 'service short lists')
    return { kind: 'shortList', keep: size * 0.3, operations: ['instruments'], count: 1 }
  if (what === 'service late') return { kind: 'latency', minMs: 0, maxMs: Math.round(size * 8_000) }
  return null
}
