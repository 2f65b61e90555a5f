/** A mistake in the sources that the harness has to find. */
export interface Mutation {
  readonly name: string
  readonly file: string
  readonly find: string
  readonly replace: string
  /** What finds it: simulated time unless told otherwise, the model of the rule, or the sequences of an archive. */
  readonly foundBy?: 'rule' | 'archive'
}

export const mutations: readonly Mutation[] = [
  {
    name: 'two responses follow on without a shared fill',
    file: 'migrations/functions/storeFills.sql',
    find: 'unnest(p.claimed + unsettled + tstzmultirange(tstzrange(begins, ends))) as r',
    replace:
      'unnest(tstzmultirange(range_merge(p.claimed + unsettled + tstzmultirange(tstzrange(begins, ends))))) as r',
  },
  {
    name: 'a loss between two responses is no gap',
    file: 'migrations/functions/storeFills.sql',
    find: 'gap := tstzrange(least(before, begins), greatest(before, begins));',
    replace: "gap := 'empty';",
  },
  {
    name: 'a response is proven up to when it was asked for',
    file: 'migrations/functions/storeFills.sql',
    find: ':= least(p.newest, p.requested);',
    replace: ':= p.requested;',
  },
  {
    name: 'a response that follows on is proven beyond its newest fill',
    file: 'migrations/functions/storeFills.sql',
    find: ':= least(p.newest, p.requested);',
    replace: ":= p.newest + interval '20 seconds';",
  },
  {
    name: 'claims forget the evidence against them',
    file: 'migrations/functions/claimFills.sql',
    find: 'granted := claim - against.ranges - final;',
    replace: 'granted := claim - final;',
  },
  {
    name: 'acknowledged before it is committed',
    file: 'src/collect/queue/lane.ts',
    find: 'return isDirect ? this.#storeInTime(batch, false) : this.#writeToDisk(batch)',
    replace: `if (!isDirect) return this.#writeToDisk(batch)
    void this.#storeInTime(batch, true)
    return Promise.resolve(true)`,
  },
  {
    name: 'a failed write is not spooled',
    file: 'src/collect/queue/lane.ts',
    find: "resolve(end === 'stored' || isRefused ? end === 'stored' : this.#writeToDisk(batch))",
    replace: "resolve(end === 'stored' || !isRefused)",
  },
  {
    name: 'what is written is not synced',
    file: 'src/collect/queue/segmentWriter.ts',
    find: 'await current.file.datasync()',
    replace: 'await Promise.resolve()',
  },
  {
    name: 'a segment is removed before all of it is stored',
    file: 'src/collect/queue/spool.ts',
    find: 'if (isStored) await',
    replace: 'await',
  },
  {
    name: 'a batch counts as replayed before it is stored',
    file: 'src/collect/queue/diskReader.ts',
    find: "if (end === 'stored') stored.add(index)",
    replace: "if (end !== 'late') stored.add(index)",
  },
  {
    name: 'a permit can be used twice',
    file: 'src/exchange/limits/pacer.ts',
    find: 'this.#shift(isReady) : undefined',
    replace: 'this.#shift((operation) => operation === "fills" || isReady(operation)) : undefined',
  },
  {
    name: 'the way of a request takes no time',
    file: 'src/exchange/limits/pacer.ts',
    find: 'return new Budget({ limit, windowMs: secondMs, latencyJitterMs, spacingGuardMs, catchUpMs, startMs })',
    replace:
      'return new Budget({ limit, windowMs: secondMs, latencyJitterMs: 0, spacingGuardMs: 0, catchUpMs, startMs })',
  },
  {
    name: 'one request more than the limit',
    file: 'src/exchange/limits/pacer.ts',
    find: 'const limit = limits.perSecond[operation]',
    replace: 'const limit = limits.perSecond[operation] + 1',
  },
  {
    name: 'the right to send has no end',
    file: 'src/lease/right.ts',
    find: 'elapsedMs(this.#clock, this.#provenAt) < rightMs',
    replace: 'elapsedMs(this.#clock, this.#provenAt) < Infinity',
  },
  {
    name: 'a suspended machine sends on waking',
    file: 'src/runtime/clock.ts',
    find: 'return Math.max(clock.monotonicMs() - since.ms, clock.uptimeMs() - since.uptimeMs)',
    replace: 'return clock.monotonicMs() - since.ms',
  },
  {
    name: 'a successor does not wait for the lease of its predecessor to end',
    file: 'src/lease/lease.ts',
    find: 'this.#clock.monotonicMs() - watch.sinceMs >= takeAfterMs',
    replace: 'this.#clock.monotonicMs() - watch.sinceMs >= 0',
  },
  {
    name: 'a request has no end when nothing comes',
    file: 'src/exchange/http/transport.ts',
    find: 'clock.after(timeoutMs, () => {',
    replace: 'clock.after(timeoutMs * 1e6, () => {',
  },
  {
    name: 'a circuit that was tried in vain is not tried again',
    file: 'src/exchange/limits/circuit.ts',
    find: 'if (isProbe) this.#probe = undefined',
    replace: "if (isProbe && outcome !== 'fails') this.#probe = undefined",
  },
  {
    name: 'schedules run once',
    file: 'src/collect/schedule/cron.ts',
    find: 'if (clock.now() >= dueAt) run()',
    replace: 'if (clock.now() >= dueAt) {\n        run()\n        return\n      }',
  },
  {
    name: 'a request that failed is not made good',
    file: 'src/collect/poll/fillsPoller.ts',
    find: 'if (batch === null) schedule.failed(target, now)',
    replace: 'if (batch === null) return false',
  },
  {
    name: 'a candle is final as soon as it has closed',
    file: 'src/exchange/formats/trades.ts',
    find: 'requestTime >= closeTime(openTime, query.interval) + (query.settleMs ?? 0)',
    replace: 'requestTime >= closeTime(openTime, query.interval)',
  },
  {
    name: 'a history of other ids is stored beside the live fills',
    file: 'src/ledger/storePastFills.ts',
    find: "'incomplete' : whyRefused(known, fills, compare, proven)",
    replace: "'incomplete' : null",
  },
  {
    name: 'a history that lacks fills is believed',
    file: 'src/ledger/storePastFills.ts',
    find: "isAmong && known.every((fill) => compare(fill) === null) ? 'other ids' : 'incomplete'",
    replace: "isAmong && known.every((fill) => compare(fill) === null) ? 'other ids' : null",
  },
  {
    name: 'a loss before the first claim is no gap',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'lower(last) end), p.first + a_ms);',
    replace: 'lower(last) end), null);',
  },
  {
    name: 'claims of any response forget the evidence against them',
    foundBy: 'rule',
    file: 'migrations/functions/claimFills.sql',
    find: 'granted := claim - against.ranges - final;',
    replace: 'granted := claim - final;',
  },
  {
    name: 'responses are joined by time instead of a fill',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'unnest(p.claimed + unsettled + tstzmultirange(tstzrange(begins, ends))) as r',
    replace:
      'unnest(tstzmultirange(range_merge(p.claimed + unsettled + tstzmultirange(tstzrange(begins, ends))))) as r',
  },
  {
    name: 'the order of the rows is believed',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'ends constant timestamptz := newest - p.disorder;',
    replace: 'ends constant timestamptz := newest;',
  },
  {
    name: 'the millisecond of the oldest fill is proven',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'begins constant timestamptz := p.edge + a_ms +',
    replace: 'begins constant timestamptz := p.edge +',
  },
  {
    name: 'what has not settled is claimed',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'tstzmultirange(tstzrange(null, p.requested - settling))',
    replace: 'tstzmultirange(tstzrange(null, p.requested))',
  },
  {
    name: 'a page that leaves out stored fills is believed',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'if p.left_out > 0 then',
    replace: 'if p.left_out < 0 then',
  },
  {
    name: 'a tail is proven without a page that goes on from it',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: 'coalesce(o.ranges * tstzmultirange(tstzrange(null, o.settled_at)),',
    replace: 'coalesce(o.ranges,',
  },
  {
    name: 'a price that changes contradicts nothing',
    foundBy: 'rule',
    file: 'migrations/functions/storeFills.sql',
    find: '(select array_agg(r) from unnest(conflicts) as r), conflict_reason)',
    replace: "'{}', conflict_reason)",
  },
  {
    name: 'a candle that counts more contradicts nothing',
    foundBy: 'rule',
    file: 'migrations/functions/evidence.sql',
    find: 'filter (where m.volume > m.size and (claimed @> whole or',
    replace: 'filter (where m.volume < 0 and (claimed @> whole or',
  },
  {
    name: 'a candle that counts more proves its minute',
    foundBy: 'rule',
    file: 'migrations/functions/evidence.sql',
    find: 'filter (where m.volume = m.size and',
    replace: 'filter (where m.volume >= m.size and',
  },
  {
    name: 'the size of a page says that it is not cut',
    foundBy: 'rule',
    file: 'src/ledger/run.ts',
    find: '(total > 0 && total >= largest)',
    replace: 'total < 0',
  },
  {
    name: 'a history that leaves out stored fills is believed',
    foundBy: 'rule',
    file: 'src/ledger/storePastFills.ts',
    find: 'if (leftOut.length === 0) return null',
    replace: 'if (leftOut.length >= 0) return null',
  },
  // That one page proves a silence (`others` in run.ts) is not among them. What the other page shows is stored, or its range is
  // refused, so that a page is refused that lacks any of it. One that shows more of a millisecond is stored with all of it.
  {
    name: 'a candle that has left is stored again',
    foundBy: 'archive',
    file: 'src/ledger/storeCandles.ts',
    find: 'as page where ${isNotFinal(candles)}',
    replace: 'as page where true',
  },
]
