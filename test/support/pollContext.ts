import { pino } from 'pino'
import { ClockSkew } from '../../src/collect/poll/clockSkew.js'
import type { PollContext } from '../../src/collect/poll/pollAndStore.js'
import { RejectionCap } from '../../src/collect/poll/rejectionCap.js'
import { Universe } from '../../src/collect/universe/universe.js'
import type { ExchangeClient } from '../../src/exchange/client.js'
import { type Clock, systemClock } from '../../src/runtime/clock.js'
import { Incidents } from '../../src/runtime/incidents.js'
import type { SinkUnderTest } from './sinkUnderTest.js'

/** What a poller works with that stores through a sink under test: silent, and with nothing known of the market yet. */
export function pollContext(
  { sink, stats }: Pick<SinkUnderTest, 'sink' | 'stats'>,
  client: ExchangeClient,
  signal: AbortSignal,
  clock: Clock = systemClock,
): PollContext {
  const logger = pino({ level: 'silent' })
  return {
    client,
    sink,
    stats,
    incidents: new Incidents(logger, clock),
    clock,
    logger,
    universe: new Universe(),
    clockSkew: new ClockSkew(clock, logger),
    rejectionCap: new RejectionCap(),
    keptMs: () => null,
    signal,
  }
}
