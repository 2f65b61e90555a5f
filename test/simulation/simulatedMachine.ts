import { type Logger, pino } from 'pino'
import { type Recorder, startRecorder } from '../../src/app.js'
import type { Environment } from '../../src/config/environment.js'
import type { Config } from '../../src/config/resolve.js'
import type { Service } from '../../src/simulator/service.js'
import type { DatabaseLink } from './databaseLink.js'
import type { SimulatedDatabase } from './driver.js'
import { LeaseKnowledge, type Presence, type Received } from './leaseKnowledge.js'
import { DiskContent, mountDisk } from './memoryDisk.js'
import type { Sender } from './sendersWatch.js'
import { clearWay, createNetwork, type NetworkOptions, type Way } from './network.js'
import { egress } from './worldPlan.js'
import { MachineClock, type VirtualTime } from './virtualTime.js'

/** The surroundings of a machine, which the machines of a world share. */
export interface Surroundings {
  readonly time: VirtualTime
  readonly epochMs: number
  readonly service: Service
  readonly database: SimulatedDatabase
  readonly databaseName: string
  readonly configOf: (env: Environment) => Config
  readonly random: () => number
  readonly address: string
  readonly jitterMs: number
  readonly trace: (line: string) => void
  readonly violate: (line: string) => void
  readonly onDeparture: (sender: Sender) => void
  readonly onArrival: NetworkOptions['onArrival']
}

/** A recorder on a machine, between its start and its end. */
interface Run {
  readonly clock: MachineClock
  readonly host: string
  /** Aborts when the recorder has to stop. */
  readonly stopping: AbortController
  /** Resolves when it has started, or could not. */
  started: Promise<void>
  isDead: boolean
  recorder: Recorder | undefined
  config: Config
}

/** A machine with a recorder that a supervisor starts again whenever it ends. */
export class SimulatedMachine {
  readonly way: Way = clearWay()
  readonly link: DatabaseLink = { state: 'up', slowMs: 0, refusal: undefined }
  readonly disk = new DiskContent()
  readonly diskState = { isFull: false, syncMs: 0, readFailure: undefined as string | undefined }
  readonly #name: string
  readonly #around: Surroundings
  readonly #drift: number
  readonly #knowledge: LeaseKnowledge
  #runs = 0
  #run: Run | undefined
  /** How far its wall clock is off; stays so over a restart. */
  skewMs = 0
  isWanted = false
  /** Resolves when the recorder that was told to stop has stopped. */
  #stopping: Promise<void> | undefined

  constructor(name: string, around: Surroundings) {
    this.#name = name
    this.#around = around
    this.#knowledge = new LeaseKnowledge(egress)
    this.#drift = (around.random() - 0.5) * 2e-4
  }

  get recorder(): Recorder | undefined {
    return this.#run?.recorder
  }

  get presence(): Presence {
    return this.#knowledge.presence
  }

  /** By its own wall clock. */
  now(): number {
    return this.#run?.clock.now() ?? NaN
  }

  get config(): Config | undefined {
    return this.#run?.config
  }

  start(): void {
    if (this.isWanted) return
    this.isWanted = true
    const stopping = this.#stopping
    if (stopping === undefined) this.#begin()
    // It may have been stopped and started again meanwhile.
    else void stopping.then(() => this.isWanted && this.#run === undefined && this.#begin())
  }

  /** Cuts the power. Data that was not synced is lost, and work that was under way never ends. */
  async crash(): Promise<void> {
    this.isWanted = false
    const run = this.#run
    if (run === undefined) return
    this.#trace('crashes')
    this.#run = undefined
    this.#stopping = undefined
    run.isDead = true
    run.clock.isDead = true
    await this.#around.database.bury((options) => options.isDead())
    this.disk.cutPower(this.#around.random)
  }

  /** Stops the recorder as a service manager does. */
  stop(): Promise<void> {
    this.isWanted = false
    const run = this.#run
    if (this.#stopping !== undefined || run === undefined) return this.#stopping ?? Promise.resolve()
    this.#trace('is told to stop')
    const stopping = (async () => {
      await new Promise<void>((resolve) => void run.clock.whenAwake(resolve))
      run.stopping.abort(new Error('told to stop'))
      await run.started
      const drained = await run.recorder?.stop()
      if (run.isDead) return
      this.#trace(`has stopped${drained === false ? ', not everything in time' : ''}`)
      run.isDead = true
      run.clock.isDead = true
      // Connections that the process has left open end with it.
      await this.#buried()
      if (this.#run === run) this.#run = undefined
      this.#stopping = undefined
    })()
    this.#stopping = stopping
    return stopping
  }

  /** Resolves when the server knows that the process has ended. Time stands still meanwhile. */
  #buried(): Promise<void> {
    const { time, database } = this.#around
    return new Promise((resolve) => {
      time.after(0, async () => {
        await database.bury((options) => options.isDead())
        resolve()
      })
    })
  }

  /** Suspends the machine: nothing runs, and its monotonic clock stands still. */
  suspend(forMs: number): void {
    const clock = this.#run?.clock
    if (clock === undefined) return
    clock.suspend()
    this.#around.time.after(forMs, () => clock.wake())
  }

  /** Sets the time of day. Nothing sets that of a suspended machine: it would hide how long the machine slept. */
  setClock(skewMs: number): void {
    if (this.#run?.clock.isSuspended === true) return
    this.skewMs = skewMs
    if (this.#run !== undefined) this.#run.clock.skewMs = skewMs
  }

  #begin(): void {
    const { time, epochMs, random, database, databaseName, configOf, service, address, jitterMs, trace } = this.#around
    const clock = new MachineClock(time, epochMs, () => random() * 2)
    clock.drift = this.#drift
    clock.skewMs = this.skewMs
    const host = `${this.#name}-${++this.#runs}`
    const config = configOf({
      DATABASE_URL: `postgresql://recorder:none@${host}:5432/${databaseName}`,
      EXCHANGE_BASE_URL: 'http://service',
    })
    const run: Run = {
      clock,
      host,
      config,
      stopping: new AbortController(),
      started: Promise.resolve(),
      isDead: false,
      recorder: undefined,
    }
    this.#run = run
    const isDead = () => run.isDead
    this.#knowledge.begins(time.nowMs)
    const onReceived = (received: Received) => this.#knowledge.hears(received, time.nowMs)
    const { whenAwake } = clock
    database.addMachine(host, { link: this.link, random, isDead, whenAwake, onReceived })
    const disk = mountDisk(this.disk, {
      isFull: () => this.diskState.isFull && random() < 0.8,
      readFailure: () =>
        this.diskState.readFailure !== undefined && random() < 0.5 ? this.diskState.readFailure : undefined,
      random,
      work: (kind) =>
        new Promise((resolve) => {
          const ms = 0.05 + random() * (kind === 'sync' ? 3 + this.diskState.syncMs : 0.2)
          time.after(ms, () => {
            if (!run.isDead) void whenAwake(resolve)
          })
        }),
    })
    const sender = {
      name: host,
      isLeaving: () => run.isDead || run.stopping.signal.aborted,
      hasHadRight: () => this.#knowledge.hasHadRight,
    }
    const adapter = createNetwork({
      time,
      service,
      random,
      address,
      jitterMs,
      way: this.way,
      isDead,
      whenAwake,
      onDeparture: () => this.#around.onDeparture(sender),
      onArrival: (operation, from, asked) => {
        this.#trace(`${operation} arrives`)
        this.#around.onArrival(operation, from, asked)
      },
      onResponse: (operation, status) => trace(`${this.#name} ${operation} ${status}`),
    })
    this.#trace('starts')
    const { signal } = run.stopping
    run.started = startRecorder(config, this.#logger(run), { clock, adapter, disk, signal }).then(
      (recorder) => {
        if (run.isDead) return
        run.recorder = recorder
        this.#trace('records')
      },
      (error: Error) => {
        if (run.isDead) return
        this.#trace(`could not start: ${error.message}`)
        if (signal.aborted) return
        run.isDead = true
        clock.isDead = true
        if (this.#run === run) this.#run = undefined
        time.after(500, () => {
          if (this.isWanted && this.#run === undefined) this.#begin()
        })
      },
    )
  }

  #trace(line: string): void {
    this.#around.trace(`${this.#name} ${line}`)
  }

  #logger(run: Run): Logger {
    const write = (line: string) => {
      if (run.isDead) return
      const { level, msg } = JSON.parse(line) as { readonly level: number; readonly msg: string }
      this.#around.trace(`${this.#name} ${pino.levels.labels[level] ?? level}: ${msg}`)
      if (level >= 50 && !msg.startsWith('the spool is damaged'))
        this.#around.violate(`${this.#name} logged an error: ${msg}`)
    }
    return pino({ level: 'info', base: null, timestamp: false }, { write })
  }
}
