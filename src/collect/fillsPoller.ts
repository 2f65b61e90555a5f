import type { Kysely } from 'kysely'
import type { FillPayload } from '../exchange/payloads.js'
import type { InstrumentKey } from '../market/category.js'
import type { Fill } from '../market/fill.js'
import { latestFills } from '../store/fills.js'
import type { Database } from '../store/schema.js'
import { type FillMemory, fillsPerPage, judgeFills, nextFillPollMs } from './fillContinuity.js'
import { LoopSet } from './loopSet.js'
import { type PollContext, pollAndStore } from './pollContext.js'
import { instrumentText, loopPoller, type Poller, sleepUntil } from './poller.js'
import type { StreamDefinition, Trigger } from './streams.js'

/** An instrument whose ticker says that it did not trade is asked all the same after this long. */
const longestTrustMs = 3_600_000

/**
 * Asks for each instrument's fills before more have happened than one answer shows, proves that answers join, and records
 * a gap where they don't. What was stored before a restart counts as the answer before the first.
 */
export function fillsPoller(
  context: PollContext,
  db: Kysely<Database>,
  stream: StreamDefinition<InstrumentKey, FillPayload, Fill>,
  { minPollMs, maxPollMs }: Extract<Trigger, { kind: 'overlap' }>,
): Poller<InstrumentKey> {
  const { clock, universe, stats } = context
  const loops = new LoopSet<InstrumentKey>(instrumentText, async (target, ended) => {
    const signal = AbortSignal.any([ended, context.signal])
    let memory: FillMemory | null | undefined
    let mark: string | null = null
    let askedAt = -Infinity
    for (let waitMs = 0; await sleepUntil(clock, clock.now() + waitMs, signal);) {
      const markNow = universe.tradeMark(target)
      const trusted = clock.monotonicMs() - askedAt < longestTrustMs
      if (memory != null && markNow !== null && markNow === mark && trusted) {
        stats[stream.name].lastIdleAt = clock.now()
        waitMs = minPollMs
        continue
      }
      memory ??= await rememberedFills(db, target).catch(() => undefined)
      if (memory === undefined) {
        // Without knowing what is stored no answer can be judged: wait for the database.
        waitMs = minPollMs
        continue
      }
      let next: FillMemory | null = memory
      const deadline = clock.monotonicMs() + minPollMs
      const batch = await pollAndStore(context, stream, target, { signal, deadline }, (answer) => {
        const pageSize = answer.rows.length + answer.rejected.length
        const judged = judgeFills(memory ?? null, answer.rows, pageSize, answer.requestTime)
        next = judged.memory
        return {
          ...answer,
          proven: judged.proven === null ? [] : [{ ...target, range: judged.proven }],
          gaps: judged.gap === null ? [] : [{ ...target, range: judged.gap, reason: 'fills outran polling' }],
        }
      })
      if (batch === null) {
        waitMs = minPollMs
        continue
      }
      memory = next
      mark = markNow
      askedAt = clock.monotonicMs()
      waitMs = nextFillPollMs(batch.rows, batch.requestTime, minPollMs, maxPollMs)
    }
  })
  return loopPoller(context, stream.name, loops)
}

/** What is stored of an instrument counts as its last answer, so that a hole across a restart is found too. */
async function rememberedFills(db: Kysely<Database>, target: InstrumentKey): Promise<FillMemory | null> {
  const stored = await latestFills(db, target, fillsPerPage)
  const newest = stored[0]
  if (newest === undefined) return null
  return { knownUntil: newest.ts, execIds: new Set(stored.map((fill) => fill.execId)) }
}
