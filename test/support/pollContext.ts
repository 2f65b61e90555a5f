import { pino } from 'pino'
import type { PollContext } from '../../src/collect/poll/pollAndStore.js'
import { Universe } from '../../src/collect/universe/universe.js'
import { WholeLists } from '../../src/collect/universe/wholeLists.js'
import type { ExchangeClient } from '../../src/exchange/client.js'
import { type Clock, systemClock } from '../../src/runtime/clock.js'
import { Incidents } from '../../src/runtime/incidents.js'
import type { QueueUnderTest } from './queueUnderTest.js'

/** Makes the context of a poller that stores through a queue under test. It logs nothing and knows no market yet. */
export function pollContext(
  { queue, stats }: Pick<QueueUnderTest, 'queue' | 'stats'>,
  client: ExchangeClient,
  signal: AbortSignal,
  clock: Clock = systemClock,
): PollContext {
  const logger = pino({ level: 'silent' })
  const incidents = new Incidents(logger, clock)
  return {
    client,
    queue,
    stats,
    incidents,
    clock,
    serviceNow: () => Number(clock.now()),
    logger,
    universe: new Universe(),
    wholeLists: new WholeLists(incidents),
    lastOutcomes: new WeakMap(),
    keptMs: () => null,
    signal,
  }
}
