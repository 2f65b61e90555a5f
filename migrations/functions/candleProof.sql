-- Functions that move ranges of candles between verdicts. src/ledger/verdicts.ts lists the moves.

-- Returns the ranges of a series of candles with a verdict that is kept in one row.
create or replace function recorder.ranges_of(
  of_category market.category, of_symbol text, of_type text, of_interval text, of_verdict text
)
returns tstzmultirange language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce((
    select k.ranges from recorder.ledger k
    where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
      and k.verdict = of_verdict and k.part = '-infinity'), '{}')
$$;

-- Returns true if candles are stored in ranges that a response leaves out. Then it is no unbroken run, and shows no
-- silence. A forming candle without volume is left out later, unless something is traded in it.
create or replace function recorder.leaves_out_candles(
  of_category market.category, of_symbol text, of_type text, of_interval text, left_out tstzmultirange
)
returns boolean language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  length constant interval := market.interval_length(of_interval::market.candle_interval);
begin
  return exists (
    select from market.candles c
    where c.category = of_category and c.symbol = of_symbol and c.type = of_type::market.candle_type
      and c.interval = of_interval::market.candle_interval and (c.is_closed or c.base_volume > 0)
      and c.open_time > lower(left_out) - length and c.open_time < upper(left_out)
      and tstzrange(c.open_time, c.open_time + length) && left_out);
end
$$;

-- Returns the places of candles in silent ranges in which fills are stored. Something was traded there.
create or replace function recorder.traded_places(
  of_category market.category, of_symbol text, silence tstzmultirange, length interval
)
returns tstzmultirange language sql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select coalesce(range_agg(r * tstzrange(place, place + length)), '{}')
  from unnest(silence) as r join market.fills t on t.category = of_category and t.symbol = of_symbol
    and t.ts >= lower(r) and t.ts < upper(r) and t.ts >= lower(silence) and t.ts < upper(silence)
  cross join lateral date_bin(length, t.ts, lower(r)) as place
$$;

-- Ends the silence of candles in which fills were just stored, between the oldest and the newest of them. Its claim
-- becomes a gap. Returns what was claimed of fills by it. The caller has locked the series of the fills, as writers of a
-- silence do.
create or replace function recorder.end_silence(
  of_category market.category, of_symbol text, oldest timestamptz, newest timestamptz
)
returns tstzmultirange language sql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select coalesce(range_agg(claimed), '{}') from (
    select s.interval, range_agg(r) as silence
    from unnest(enum_range(null::market.candle_interval)) as i join recorder.ledger s
      on recorder.is_of(s, 'candles', of_category, of_symbol, 'market', i::text)
        and s.verdict = 'recorded' and s.part = '-infinity'
    cross join lateral recorder.rows_within('candles', of_category, of_symbol, 'market', s.interval,
      '{silent,no trade}', tstzmultirange(tstzrange(oldest, newest, '[]'))) as k
    cross join lateral unnest(k.ranges) as r
    where r && tstzrange(oldest, newest, '[]')
    group by s.interval order by s.interval
  ) s cross join lateral unnest(recorder.withdraw_claims('candles', of_category, of_symbol, 'market', s.interval,
    recorder.traded_places(of_category, of_symbol, s.silence, market.interval_length(s.interval::market.candle_interval)),
    'the service left these candles out, but fills of their time are stored')) as claimed
$$;

-- Notes places of candles that could not be understood as evidence against silence, as far as no candle claims them. It
-- stands until their candles come.
create or replace function recorder.deny_silence(
  of_category market.category, of_symbol text, of_type text, of_interval text, shown tstzrange[]
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  select recorder.note_evidence('candles', of_category, of_symbol, of_type, of_interval, array_agg(place),
    'a candle could not be understood; see recorder.rejected_row')
  from unnest(shown) as r cross join lateral (
    select coalesce(range_agg(s), '{}') as ranges
    from recorder.rows_within('candles', of_category, of_symbol, of_type, of_interval,
      '{silent,no trade}', tstzmultirange(r)) k cross join lateral unnest(k.ranges) as s
  ) as silent cross join lateral unnest(tstzmultirange(r)
    - (recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'recorded') - silent.ranges)) as place
  having count(*) > 0
$$;

-- Claims candles that were stored, and the silence between two candles of a response. Writers of a series wait for each
-- other at the row with verdict recorded, so that later statements see the claims of others. Silence in which candles
-- have come is taken back, and noted as repaired gaps. at: service time of a live response. seen: service time of the
-- response in any case. formed: candles that form, and have a volume. Returns the number of late candles.
create or replace function recorder.claim_candles(
  of_category market.category, of_symbol text, of_type text, of_interval text, filled tstzmultirange,
  left_out tstzmultirange, at timestamptz default null, seen timestamptz default null, formed tstzmultirange default '{}'
)
returns bigint language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  length constant interval := market.interval_length(of_interval::market.candle_interval);
  late_reason constant text :=
    'the service left these candles out at first, as if nothing had been traded, and gave them later';
  oldest constant timestamptz := case when at is not null then lower(filled) end;
  shown tstzmultirange;
  late tstzmultirange;
  begun timestamptz;
  has_fills boolean := false;
  whole constant tstzmultirange := filled + left_out;
  against constant tstzmultirange := (
    select e.ranges
    from recorder.evidence_against('candles', of_category, of_symbol, of_type, of_interval, whole) e);
  final constant tstzmultirange :=
    recorder.final_from('candles', of_category, of_symbol, of_type, of_interval, lower(whole));
begin
  if against && filled then
    perform recorder.end_evidence('candles', of_category, of_symbol, of_type, of_interval, 'disputed', filled);
  end if;
  filled := filled - final;
  left_out := left_out - final;
  shown := filled + formed;
  if of_type = 'market' then
    -- Candles and fills are compared by whichever comes later. The lock makes one of them wait for the other. Writers
    -- of fills take it before the lock on candles of any interval, too.
    perform from recorder.ledger k
    where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
      and k.verdict = 'recorded' and k.part = '-infinity' for update;
    has_fills := found;
    if not has_fills then
      -- Another transaction may have its first fills, and not show them yet: this waits for it. A row of its own makes
      -- others wait, and leaves again.
      insert into recorder.ledger (stream, category, symbol, verdict, ranges)
      values ('fills', of_category, of_symbol, 'recorded', '{}') on conflict do nothing;
      if found then
        delete from recorder.ledger k
        where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
          and k.verdict = 'recorded' and k.part = '-infinity';
      else
        perform recorder.lock_fills(array[of_category], array[of_symbol]);
        has_fills := true;
      end if;
    end if;
  end if;
  -- The row also holds the service time of the newest live response, and the oldest candle that this one shows. An
  -- older response does not overwrite closed candles from there on.
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, ranges, noted_at, asked_since
  )
  values (
    'candles', of_category, of_symbol, of_type, of_interval, 'recorded', filled, coalesce(at, '-infinity'), oldest
  )
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges, noted_at = greatest(k.noted_at, excluded.noted_at),
      asked_since = case when k.noted_at < excluded.noted_at then coalesce(excluded.asked_since, k.asked_since)
        else k.asked_since end
    where not k.ranges @> excluded.ranges or k.noted_at < excluded.noted_at;
  select range_agg(r) into late
  from recorder.rows_within('candles', of_category, of_symbol, of_type, of_interval, '{silent,no trade}', shown) k
  cross join lateral unnest(k.ranges * shown) as r;
  select max(upper(k.ranges)) into begun from recorder.ledger k
  where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
    and k.verdict = 'before the beginning' and k.part < upper(shown) and upper(k.ranges) > lower(shown);
  if late is not null then
    perform recorder.withdraw_claims('candles', of_category, of_symbol, of_type, of_interval, late - filled,
      'the service left these candles out, but something was traded in them');
    late := late * filled;
    update recorder.ledger k set ranges = k.ranges - late
    where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
      and k.verdict in ('silent', 'no trade') and k.ranges && late and k.part = any (array(
        select w.part from recorder.rows_within('candles', of_category, of_symbol, of_type, of_interval,
          '{silent,no trade}', late) w));
    perform recorder.note_gaps('candles', of_category, of_symbol, of_type, of_interval, 'repaired',
      late, late_reason, coalesce(seen, at));
    if of_interval = '1m' then
      -- A claim of fills may rest on the silence.
      perform recorder.withdraw_claims('fills', of_category, of_symbol, '', '', late, late_reason);
    end if;
  end if;
  if not isempty(left_out) and of_type = 'market' then
    if recorder.leaves_out_candles(of_category, of_symbol, of_type, of_interval, left_out) then
      left_out := '{}';
    else
      left_out := left_out - against - recorder.traded_places(of_category, of_symbol, left_out, length);
    end if;
  end if;
  if not isempty(left_out) then
    -- Silence is kept in parts of 1,440 candles, so that a row stays short.
    insert into recorder.ledger as k (
      stream, category, symbol, type, interval, verdict, part, ranges, noted_at
    )
    select 'candles', of_category, of_symbol, of_type, of_interval, 'silent',
      date_bin(length * 1440, lower(r), timestamptz 'epoch') as begins, range_agg(r),
      coalesce(seen, at, '-infinity')
    from unnest(left_out - recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'recorded')) as r
    group by begins
    on conflict (stream, category, symbol, type, interval, verdict, part) do update
      set ranges = k.ranges + excluded.ranges, noted_at = greatest(k.noted_at, excluded.noted_at)
      where not k.ranges @> excluded.ranges;
    update recorder.ledger k set ranges = k.ranges + left_out
    where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'recorded' and not k.ranges @> left_out;
  end if;
  if begun is not null then
    -- The series has older candles than those with which it seemed to begin.
    delete from recorder.ledger k
    where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'before the beginning';
    perform recorder.note_unknown('candles', of_category, of_symbol, of_type, of_interval,
      tstzmultirange(tstzrange(lower(shown), begun))
        - recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'recorded'),
      'the series seemed to begin after these candles, but older ones came');
  end if;
  if at is not null then
    -- It may be stored after the list that its instrument has left.
    perform recorder.end_candles(i.category, array[i.symbol]) from market.instruments i
    where i.category = of_category and i.symbol = of_symbol and i.disappeared_at is not null;
  end if;
  if has_fills and of_interval = '1m' then
    perform recorder.weigh_minutes(of_category, of_symbol, filled + left_out, 'live');
  end if;
  return (select coalesce(round(sum(extract(epoch from upper(r) - lower(r))) / extract(epoch from length)), 0)
    from unnest(late) as r);
end
$$;

-- Notes a second look at silence. The silent ranges that it showed again are confirmed to have no trade, in parts that
-- last grew before a time: a look that comes soon after the first one shows nothing new.
create or replace function recorder.confirm_no_trade(
  of_category market.category, of_symbol text, of_type text, of_interval text, seen_again tstzmultirange,
  noted_until timestamptz
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  with seen as (
    select * from recorder.ledger s
    where recorder.is_of(s, 'candles', of_category, of_symbol, of_type, of_interval)
      and s.verdict = 'silent' and s.ranges && seen_again and s.noted_at <= noted_until
      and not recorder.leaves_out_candles(of_category, of_symbol, of_type, of_interval, seen_again) for update
  ), left_over as (
    update recorder.ledger k set ranges = k.ranges - seen_again from seen
    where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'silent' and k.part = seen.part
  )
  insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, part, ranges)
  select stream, category, symbol, type, interval, 'no trade', part, ranges * seen_again from seen
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges;
  delete from recorder.ledger k
  where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
    and k.verdict = 'silent' and isempty(k.ranges);
$$;

-- Replaces the unanswered ranges within the requested ones by fresh ones. Ranges in kept stay as they are. at: time of
-- the service when they were requested.
create or replace function recorder.replace_unanswered(
  of_category market.category, of_symbol text, of_type text, of_interval text,
  asked tstzmultirange, fresh tstzmultirange, kept tstzmultirange, at timestamptz
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, noted_at, times
  )
  select 'candles', of_category, of_symbol, of_type, of_interval, 'unanswered', lower(r), tstzmultirange(r), at,
    1 + coalesce((
      select max(u.times) from recorder.ledger u
      where recorder.is_of(u, 'candles', of_category, of_symbol, of_type, of_interval)
        and u.verdict = 'unanswered' and u.ranges && r), 0)
  from unnest(fresh) as r
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = excluded.ranges, noted_at = excluded.noted_at, times = excluded.times;
  delete from recorder.ledger k
  where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
    and k.verdict = 'unanswered' and k.ranges && asked
    and not exists (
      select from unnest(array[fresh, kept]) as stays cross join lateral unnest(stays) as r
      where tstzmultirange(r) = k.ranges);
$$;

-- Closes the gaps of a series that are known by now. Deletes gaps before the beginning of the series.
create or replace function recorder.settle_gaps(
  of_category market.category, of_symbol text, of_type text, of_interval text
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  delete from recorder.ledger k
  where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
    and k.verdict = 'missing'
    and k.ranges <@ recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'before the beginning');
  select recorder.close_gaps('candles', of_category, of_symbol, of_type, of_interval,
    recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'recorded')
      + recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'final')
      + recorder.ranges_of(of_category, of_symbol, of_type, of_interval, 'before the beginning'));
$$;

-- Notes what is missing after ranges were requested, and why. Gaps close by claims alone. Then those that touch the
-- ranges become what is still missing of them, which leaves out what is too short to hold a candle. still_missing:
-- within the ranges, and within the gaps that touch them.
create or replace function recorder.replace_gaps(
  of_category market.category, of_symbol text, of_type text, of_interval text,
  asked tstzmultirange, still_missing tstzmultirange, why text
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  select recorder.settle_gaps(of_category, of_symbol, of_type, of_interval);
  select recorder.close_gaps('candles', of_category, of_symbol, of_type, of_interval, coalesce((
    select range_agg(r) from recorder.ledger k cross join lateral unnest(k.ranges) as r
    where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'missing' and k.ranges && asked), '{}') - still_missing);
  delete from recorder.ledger k
  where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
    and k.verdict = 'missing' and k.ranges && asked
    and not exists (select from unnest(still_missing) as r where tstzmultirange(r) = k.ranges);
  update recorder.ledger k set reason = why
  where recorder.is_of(k, 'candles', of_category, of_symbol, of_type, of_interval)
    and k.verdict = 'missing' and k.ranges && asked and k.reason <> why;
  select recorder.note_gaps('candles', of_category, of_symbol, of_type, of_interval, 'missing',
    still_missing, why);
$$;
