import { z } from 'zod'
import { count, orNull, stream, time } from './parameters.js'

// Schemas of responses about the recorder. Tests check them, and the reference is generated from them.

const problem = z
  .strictObject({
    about: z
      .enum(['egress', 'database', 'stream', 'budget', 'spool', 'gap', 'recorder'])
      .describe('Which part it is about.'),
    name: z.string().describe('Name of that part, for example the stream, or several that fail for one cause.'),
    message: z.string().describe('What is wrong, human-readable.'),
    isBlocking: z.boolean().describe('Whether /readyz fails because of it.'),
  })
  .describe('Something that is not as it should be.')

const streamStatus = z.strictObject({
  name: stream,
  state: z
    .enum(['off', 'idle', 'starting', 'fresh', 'stale', 'failing'])
    .describe(
      'off: not configured. idle: nothing to cover. starting: nothing stored yet and not late. stale: older than freshnessLimitMs, or many of its targets are late. failing: all requests of a category have failed for 25 s, or brought nothing where they usually do.',
    ),
  outage: orNull(
    z
      .strictObject({
        categories: z.array(z.string()).describe('The categories that bring nothing; "" for a list of all.'),
        forMs: z.number().nonnegative().describe('Time since the first of them has brought nothing, milliseconds.'),
        message: z.string().describe('Why, at the last time, and what to do.'),
      })
      .describe('Why the stream is failing, or stale; null if it is neither, or no request failed.'),
  ),
  targets: count('Instruments, series or lists covered now.'),
  quietTargets: count('How many of them are polled less often because their responses bring nothing new.'),
  lateTargets: count(
    'How many of those polled at their normal interval are overdue; over a tenth of all makes the stream stale.',
  ),
  leftOut: z
    .strictObject({
      kind: count('Of kinds not in select.kinds.'),
      turnover: count('With less turnover than minTurnover24h.'),
      number: count('Beyond the number that select.busiest names.'),
      limits: count('For which the limits leave no room.'),
    })
    .describe('Instruments that could be covered and are not, by what leaves them out.'),
  lastStoredAt: orNull(time('When a response was last committed; null before the first.')),
  ageMs: orNull(
    z.number().nonnegative().describe('Time since then, or since it was known that there was nothing to request, ms.'),
  ),
  freshnessLimitMs: z.number().nonnegative().describe('Age beyond which the stream counts as stale, milliseconds.'),
  rowsPerSecond: z.number().nonnegative().describe('Rows written, mean of the last 10 seconds.'),
  rowsWritten: count('Rows inserted or updated since the start.'),
  rowsUnchanged: count('Rows that were stored already, since the start.'),
  rowsRejected: count('Rows that could not be understood, since the start.'),
  rowsDropped: count('Rows lost because neither database nor spool took them, since the start.'),
  responses: count('Responses of the service, since the start.'),
  failures: count('Requests without a usable response, since the start.'),
  skippedPolls: count('Polls left out because the one before was still under way, since the start.'),
  gapsFound: count('Gaps found, since the start.'),
  history: z.array(z.number().nonnegative()).max(60).describe('Rows written per second, means of 5 s, oldest first.'),
})

const backfill = z.strictObject({
  id: z.string().describe('Identifies the work.'),
  what: z.string().describe('What is fetched, human-readable.'),
  state: z.enum(['waiting', 'running', 'failed']).describe('What it is doing.'),
  doneShare: orNull(z.number().min(0).max(1).describe('How much is done, 0 to 1; null when not known.')),
  reachedAt: orNull(time('How far back in time it has come.')),
  etaMs: orNull(z.number().nonnegative().describe('Estimated time left, milliseconds; null when not known.')),
  message: orNull(z.string().describe('Why it failed or waits.')),
})

const operationBudget = z.strictObject({
  operation: z.string().describe('Operation of the service.'),
  used: count('Requests in the last second.'),
  limit: count('What the service allows in a second.'),
  perSecond: z.number().nonnegative().describe('Requests per second, mean of the last 10 seconds.'),
})

const status = z.strictObject({
  time: time('Time of this report.'),
  startedAt: time('When the recorder was started.'),
  instanceId: z.string().describe('Changes at each restart.'),
  version: z.string().describe('Version of the recorder.'),
  egress: z.string().describe('Name of the IP address whose budget it owns.'),
  phase: z
    .enum(['waiting', 'starting', 'collecting', 'stopping'])
    .describe('waiting: another recorder owns the budget. starting: reads the lists of what there is.'),
  maySend: z.boolean().describe('Whether it may send requests at this moment: one recorder owns the budget at a time.'),
  problems: z.array(problem).describe('What is wrong now; empty when all is well.'),
  streams: z.array(streamStatus).describe('Every stream, also those that are off.'),
  budget: z.strictObject({
    overall: z
      .strictObject({
        used: count('Requests in the last minute.'),
        limit: count('What the service allows in a minute.'),
      })
      .describe('All operations together.'),
    operations: z.array(operationBudget).describe('Each operation by itself.'),
    waiting: z.array(
      z.strictObject({
        class: z.enum(['live', 'repair', 'backfill']).describe('Class of urgency, the most urgent first.'),
        count: count('Requests that wait for their place.'),
        oldestWaitMs: z.number().nonnegative().describe('How long the first of them has waited, milliseconds.'),
        overdueMs: z
          .number()
          .nonnegative()
          .describe('By how much the latest of them has missed its deadline while it waited, milliseconds.'),
      }),
    ),
    inFlight: count('Requests under way.'),
    pausedMs: z.number().nonnegative().describe('How long all requests still pause after a rejection, milliseconds.'),
    rate: z.number().min(0).max(1).describe('1 at full speed; less for a while after a rejection.'),
  }),
  backlog: z.strictObject({
    batches: count('Responses in memory that are not committed yet.'),
    rows: count('Their rows.'),
    oldestReceivedAt: orNull(time('When the oldest of them arrived.')),
  }),
  spool: z
    .strictObject({
      bytes: count('Size on disk.'),
      limitBytes: count('Size at which the oldest are dropped.'),
      since: orNull(time('Since when responses have gone to the disk; null while the database takes them.')),
      droppedRows: count('Rows dropped since the start.'),
    })
    .describe('Responses that wait on disk for the database.'),
  database: z.strictObject({
    isReachable: z.boolean().describe('Whether it responded when last checked.'),
    latencyMs: orNull(z.number().nonnegative().describe('How long it took to respond, milliseconds.')),
    lagMs: orNull(
      z
        .number()
        .nonnegative()
        .describe('How far the standby that is read is behind, milliseconds; null where the database itself is read.'),
    ),
    error: orNull(z.string().describe('Why it did not respond, and what to do.')),
    bytes: orNull(z.int().describe('Size on disk.')),
    jobs: orNull(
      z
        .strictObject({
          count: count('How many there are.'),
          failed: count('Whose last run failed or broke off.'),
          late: count('That have been due for half an hour and do not run.'),
          problem: orNull(z.string().describe('What is wrong with them, and what to do; null if all work.')),
        })
        .describe("TimescaleDB's own jobs, which convert chunks and refresh rollups; null where there are none."),
    ),
  }),
  fleet: z
    .strictObject({
      unowned: count('Instruments, counted per stream, whose recorder is gone and that no other has taken over yet.'),
      recorders: z.array(
        z.strictObject({
          egress: z.string().describe('Name of the IP address that it sends from.'),
          place: z.string().describe('Host, process and address of this machine that it sends from.'),
          state: z
            .enum(['recording', 'gone'])
            .describe('gone: it ended within the last day without signing off, or does not reach the database.'),
          silentMs: z.number().nonnegative().describe('Time since it last renewed its lease, milliseconds.'),
          instruments: count('Instruments that it requests, counted per stream; 0 when it shares with no other.'),
          perSecond: z.number().nonnegative().describe('Requests per second that these take, as far as is known.'),
        }),
      ),
    })
    .describe('The recorders that share the work, this one among them.'),
  gaps: z.array(
    z
      .strictObject({
        stream,
        state: z
          .enum(['open', 'repaired', 'lost'])
          .describe('open: may be repaired. lost: the service does not give it; open again if it does.'),
        reason: z.string().describe('Why they are there.'),
        count: count('How many.'),
      })
      .describe('Known gaps of a kind, counted some seconds ago.'),
  ),
  backfills: z.array(backfill).describe('Those that run come first, then those that failed; at most 30.'),
  backfillCounts: z
    .strictObject({
      waiting: count('Waiting.'),
      running: count('Running.'),
      failed: count('Failed within the last 12 hours.'),
    })
    .describe('All of them, by state.'),
  incidents: z.array(
    z
      .strictObject({
        what: z.string().describe('What failed.'),
        message: z.string().describe('Why, at the last time.'),
        count: count('How often in a row.'),
        since: time('The first failure.'),
        lastAt: time('The last failure.'),
        until: orNull(time('When it worked again; null while it does not.')),
      })
      .describe('Failures of one thing, from the first to the next success.'),
  ),
  process: z.strictObject({
    residentBytes: count('Memory in use.'),
    eventLoopLagP99Ms: z.number().nonnegative().describe('99th percentile of the last minute, milliseconds.'),
  }),
})

const health = z.strictObject({
  ok: z.boolean().describe('Whether the check passed.'),
  reasons: z.array(z.string()).describe('Why not; empty when it passed.'),
  notices: z.array(z.string()).describe('What else is not as it should be; no reason for the check to fail.'),
})

const failure = z.strictObject({ error: z.string().describe('What is wrong with the request, one line.') })

/** Responses about the recorder itself. */
export const recorderResponses = { status, health, failure } as const

export type Status = z.infer<typeof status>
export type StreamStatus = z.infer<typeof streamStatus>
export type BackfillStatus = z.infer<typeof backfill>
