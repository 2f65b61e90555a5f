import type { Turn } from '../../exchange/sender.js'
import type { Batch } from '../../ledger/batch.js'
import { minuteMs } from '../../market/values.js'
import { type Ending, LightEnding, onAbort } from '../../runtime/abort.js'
import { type Clock, sleepFor } from '../../runtime/clock.js'
import { nextTurn } from '../../runtime/turns.js'

/** Keeps requesting its targets until it is stopped. */
export interface Poller<Target> {
  /**
   * Replaces the targets, the most wanted first. Requests for targets that stay go on.
   *
   * @param places number of targets that get a place, if the strategy chooses among them; by default all
   */
  retarget(targets: readonly Target[], places?: number): void
  /** Requests all targets now; resolves to how many of them had a response. */
  pollAll(): Promise<'all' | 'some' | 'none'>
  /** Takes responses that were on the disk, waiting for the database, and were dropped to make room. */
  dropped(batches: readonly Batch[]): void
  /** Ends the present wait, because something may be due sooner. */
  wake(): void
  /** Resolves when none of the poller's requests is under way any more. */
  stop(): Promise<void>
}

/** Decides which targets a poller requests, and when. A strategy learns every outcome in its own `request`. */
interface Strategy<Target> {
  readonly keyOf: (target: Target) => string
  retarget(targets: readonly Target[], places: number): void
  /** Time until a target is due, in milliseconds; 0 or less when one is. */
  waitMs(): number
  /** Returns the targets that are due. */
  take(): readonly Target[]
  /**
   * Requests a target, and has the response stored. Never rejects. Resolves to true if a response came.
   *
   * @param turn place within the limits, if the strategy has the method `turn`
   */
  request(target: Target, signal: Ending, turn?: Turn): Promise<boolean>
  /** Learns that a target was due while its last request was still under way. */
  skipped(target: Target): void
  /** Longest pause before the poller asks its strategy again. Default: a minute. */
  readonly maxPauseMs?: number
  /** Takes new tickers into account. Called every `maxPauseMs`. */
  onTick?(): void
  /**
   * Waits for a place within the limits before a target is chosen, because by then more is known. Resolves to null if
   * there will be none.
   */
  turn?(signal: AbortSignal): Promise<Turn | null>
  dropped?(batches: readonly Batch[]): void
  end?(): void
}

const shortestWaitMs = 5
/** Thousands of requests may begin or end at once. Others have a turn of the event loop after so many. */
const requestsOfTurn = 100

/**
 * The one loop of all streams: waits until something is due, and requests it. A target has one request at a time. The
 * waiting request of a target that is no longer wanted ends; one that has departed is finished.
 *
 * @param make gets a function that ends the present wait, to be called when something may be due sooner
 */
export function createPoller<Target>(
  { clock, signal: stopping }: { readonly clock: Clock; readonly signal: AbortSignal },
  make: (wake: () => void) => Strategy<Target>,
): Poller<Target> {
  const { pause, wake } = createPause(clock)
  const strategy = make(wake)
  const { maxPauseMs = minuteMs, keyOf } = strategy
  const ended = new AbortController()
  const { signal } = ended
  const requests = new Requests()
  let targets: readonly Target[] = []

  const request = (target: Target, turn?: Turn) =>
    requests.startOrJoin(keyOf(target), (ending) => strategy.request(target, ending, turn))
  const keepTicking = async () => {
    if (strategy.onTick === undefined) return
    do strategy.onTick()
    while (await sleepFor(clock, maxPauseMs, signal))
  }
  const keepAsking = async () => {
    while (!signal.aborted) {
      const waitMs = strategy.waitMs()
      if (waitMs > 0) {
        await pause(Math.min(maxPauseMs, Math.max(shortestWaitMs, waitMs)))
        continue
      }
      const turn = await strategy.turn?.(signal)
      if (turn === null) {
        await sleepFor(clock, maxPauseMs, signal)
        continue
      }
      let started = 0
      for (const target of strategy.take()) {
        if (requests.has(keyOf(target))) strategy.skipped(target)
        else if (!signal.aborted) {
          void request(target, turn)
          if (++started % requestsOfTurn === 0) await nextTurn()
        }
      }
      if (started > 0) continue
      turn?.release()
      await pause(shortestWaitMs)
    }
  }
  const end = () => {
    ended.abort()
    strategy.end?.()
    void requests.endAllBut(new Set())
    wake()
  }
  const stopListening = onAbort(stopping, end)
  if (stopping.aborted) end()
  const loops = Promise.all([keepTicking(), keepAsking()])

  return {
    retarget(next, places = Infinity) {
      if (signal.aborted) return
      targets = next
      strategy.retarget(next, places)
      void requests.endAllBut(new Set(next.map(keyOf)))
      wake()
    },
    async pollAll() {
      const responded = await Promise.all(targets.map((target) => request(target)))
      if (responded.every(Boolean)) return 'all'
      return responded.some(Boolean) ? 'some' : 'none'
    },
    dropped(batches) {
      strategy.dropped?.(batches)
      wake()
    },
    wake,
    async stop() {
      stopListening()
      end()
      await loops
      await requests.finished()
    },
  }
}

/** Requests under way: one of each target. */
class Requests {
  readonly #running = new Map<string, { readonly ending: LightEnding; readonly work: Promise<boolean> }>()
  #wanted: ReadonlySet<string> = new Set()

  has(key: string): boolean {
    return this.#running.has(key)
  }

  /** Starts the request of a target, unless one is under way. Resolves to its result. */
  startOrJoin(key: string, request: (ending: LightEnding) => Promise<boolean>): Promise<boolean> {
    const known = this.#running.get(key)
    if (known !== undefined) return known.work
    const ending = new LightEnding()
    const work = request(ending).finally(() => this.#running.delete(key))
    this.#running.set(key, { ending, work })
    return work
  }

  /** Ends the requests that have not departed, of all targets but these. */
  async endAllBut(keys: ReadonlySet<string>): Promise<void> {
    this.#wanted = keys
    let ended = 0
    for (const [key, { ending }] of this.#running) {
      // A later call goes on with those that it wants.
      if (this.#wanted !== keys) return
      if (keys.has(key)) continue
      ending.abort()
      if (++ended % requestsOfTurn === 0) await nextTurn()
    }
  }

  async finished(): Promise<void> {
    await Promise.all([...this.#running.values()].map(({ work }) => work))
  }
}

/** Returns a function that waits, and one that ends the present wait. */
function createPause(clock: Clock): { pause(ms: number): Promise<void>; wake(): void } {
  let endPause = () => {}
  return {
    // A new AbortController for each pause would cost ten times as much as its timer.
    pause: (ms) =>
      new Promise((resolve) => {
        const stopTimer = clock.after(ms, resolve)
        endPause = () => {
          stopTimer()
          resolve()
        }
      }),
    wake: () => endPause(),
  }
}
