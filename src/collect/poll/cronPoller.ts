import { onSchedule } from './cron.js'
import { type PollContext, pollAndStore } from './pollContext.js'
import { Exclusive, type Poller } from './poller.js'
import type { StreamDefinition } from '../streams.js'

/** Asks for all targets whenever the wall clock matches, and calls `afterPoll` when a target was answered. */
export function cronPoller<Target, Row>(
  context: PollContext,
  stream: StreamDefinition<Target, Row>,
  expression: string,
  afterPoll: () => void,
): Poller<Target> {
  const exclusive = new Exclusive()
  let targets: readonly Target[] = []

  const pollOne = async (target: Target) => {
    const answered = (await pollAndStore(context, stream, target, { signal: context.signal })) !== null
    if (answered) afterPoll()
    return answered
  }
  const endSchedule = onSchedule(context.clock, expression, () => {
    for (const target of targets) {
      if (!exclusive.run(JSON.stringify(target), () => pollOne(target))) context.stats[stream.name].skippedPolls += 1
    }
  })
  return {
    retarget(next) {
      targets = next
      context.stats[stream.name].targets = next.length
    },
    async pollAll() {
      const answered = await Promise.all(targets.map(pollOne))
      if (answered.every(Boolean)) return 'all'
      return answered.some(Boolean) ? 'some' : 'none'
    },
    async stop() {
      endSchedule()
      await exclusive.idle()
    },
  }
}
