-- Evidence against claims. It is a row of the ledger of its own, and stands until rows agree with it. `contradicted`: a
-- candle or a schedule speaks against whole stretches. `disputed`: a response left out stored rows, or gave them other
-- values. Every claim subtracts both (docs/internals/rule.md).

-- Returns the final ranges of a series, whose rows have left: nothing stores, claims, contradicts or misses them. Where
-- they end before a time, returns only the last millisecond of them, which takes a single look at an index.
create or replace function recorder.final_from(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text, since timestamptz
)
returns tstzmultirange language plpgsql stable
set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  return coalesce((
    select case when k.noted_at > since then k.ranges
      else tstzmultirange(tstzrange(k.noted_at - interval '1 millisecond', k.noted_at)) end
    from recorder.ledger k
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict = 'final' and k.part = '-infinity'), '{}');
end
$$;

-- Returns the time after which evidence begins that touches ranges. Evidence on fills is a minute long at most, so that
-- the search of its index is short.
create or replace function recorder.evidence_from(of_stream text, within tstzmultirange)
returns timestamptz language sql immutable as $$
  select lower(within) - case of_stream when 'fills' then interval '1 minute' else interval '1 year' end
$$;

-- Returns the ranges that evidence speaks against, around some ranges, and one of the reasons.
create or replace function recorder.evidence_against(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  within tstzmultirange, out ranges tstzmultirange, out reason text
)
language sql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
  select coalesce(range_agg(r), '{}'), min(k.reason)
  from recorder.ledger k cross join lateral unnest(k.ranges) as r
  where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
    and k.verdict in ('contradicted', 'disputed') and k.ranges && within
    and k.part > recorder.evidence_from(of_stream, within) and k.part < upper(within)
$$;

-- Withdraws what is claimed of ranges, silence too, which becomes gaps. Returns what was claimed; of candles, what was
-- claimed of fills: a claim of them may rest on silent minutes, and ends with the silence.
create or replace function recorder.withdraw_claims(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  against tstzmultirange, why text
)
returns tstzmultirange language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  withdrawn constant tstzmultirange := (
    select range_agg(r)
    from recorder.rows_within(of_stream, of_category, of_symbol, of_type, of_interval, '{recorded}', against) k
    cross join lateral unnest(k.ranges * against) as r);
begin
  if withdrawn is not null then
    update recorder.ledger k set ranges = k.ranges - withdrawn
    where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
      and k.verdict in ('recorded', 'silent', 'no trade') and k.ranges && withdrawn and k.part = any (array(
        select w.part from recorder.rows_within(of_stream, of_category, of_symbol, of_type, of_interval,
          '{recorded,silent,no trade}', withdrawn) w));
    perform recorder.note_unknown(of_stream, of_category, of_symbol, of_type, of_interval, withdrawn, why);
  end if;
  return case when of_stream <> 'candles' then coalesce(withdrawn, '{}') when of_interval = '1m' then
    recorder.withdraw_claims('fills', of_category, of_symbol, '', '', withdrawn,
      'the candle of this minute was left out, but something was traded in it') else '{}' end;
end
$$;

-- Withdraws what is claimed of the time of rows that could not be understood, each of a length. Such a row came late,
-- unless one is stored there. Returns what was claimed.
create or replace function recorder.withdraw_unread(
  of_stream text, of_category market.category, of_symbol text, unread tstzmultirange, length interval
)
returns tstzmultirange language sql set search_path = pg_catalog, pg_temp as $$
  select recorder.withdraw_claims(of_stream, of_category, of_symbol, '', '', coalesce(range_agg(place), '{}'),
    'a row of this time could not be understood; see recorder.rejected_row')
  from unnest(unread) as r cross join lateral generate_series(lower(r), upper(r) - length, length) as begins
  cross join lateral tstzrange(begins, begins + length) as place
  where recorder.count_rows(of_stream, of_category, of_symbol, '', '', tstzmultirange(place)) = 0
$$;

-- Ends a claim in which a response shows rows that no response showed before, and none older than these: others may be
-- missing, too. Withdraws it from the newest row that was stored before these rows until a time. oldest: of the
-- response. at: when it was received, if its rows are stored already. Returns what was claimed.
create or replace function recorder.end_claim(
  of_stream text, of_category market.category, of_symbol text, oldest timestamptz, until timestamptz,
  at timestamptz default null
)
returns tstzmultirange language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
declare
  why constant text := 'a response shows rows in time that was claimed, and others may be missing before them';
  last record;
  claimed tstzrange;
begin
  select r into claimed from recorder.ledger k cross join lateral unnest(k.ranges) as r
  where recorder.is_of(k, of_stream, of_category, of_symbol, '', '')
    and k.verdict = 'recorded' and r @> oldest and k.part = (
      select max(b.part) from recorder.ledger b
      where recorder.is_of(b, of_stream, of_category, of_symbol, '', '') and b.verdict = 'recorded' and b.part <= oldest)
  for update of k;
  if not found then
    return '{}';
  end if;
  execute format($newest$
    select t.ts from market.%I t
    where t.category = $1 and t.symbol = $2 and t.ts >= $3 and t.ts <= $4
      and (t.ts < $4 or t.received_at is distinct from $5)
    order by t.ts desc limit 1
    $newest$, of_stream) into last using of_category, of_symbol, lower(claimed), oldest, at;
  if last.ts = oldest then
    return '{}';
  end if;
  return recorder.withdraw_claims(of_stream, of_category, of_symbol, '', '',
    tstzmultirange(tstzrange(coalesce(last.ts, lower(claimed)), until)), why);
end
$$;

-- Returns which evidence a reason tells of; null if it tells of none. All evidence has one of these reasons, and so
-- have the gaps that it leaves: an archive, which holds gaps alone, tells by them what stood against claims.
create or replace function recorder.evidence_of(reason text)
returns text language sql immutable as $$
  select case
    when reason in ('the candle of this minute shows more than the fills that are stored',
      'the prices of the stored fills do not fit the candle of this minute') then 'contradicted'
    when reason in ('a fill that is stored came again with other values; see recorder.rejected_row',
      'a response left out fills that are stored', 'the history of fills gave a stored one other values',
      'a response gave a stored settlement another rate',
      'a candle could not be understood; see recorder.rejected_row') then 'disputed' end
$$;

-- Notes evidence: one row for each range. Withdraws what is claimed of it, which becomes gaps. Returns what was
-- claimed.
create or replace function recorder.note_evidence(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  against tstzrange[], why text
)
returns tstzmultirange language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  whole constant tstzmultirange := (select range_agg(r) from unnest(against) as r);
  final constant tstzmultirange :=
    recorder.final_from(of_stream, of_category, of_symbol, of_type, of_interval, lower(whole));
begin
  if final && whole then
    against := array(select unnest(whole - final));
  end if;
  insert into recorder.ledger as k (stream, category, symbol, type, interval, verdict, part, ranges, reason)
  select of_stream, of_category, of_symbol, of_type, of_interval, recorder.evidence_of(why), lower(r),
    tstzmultirange(r), why
  from unnest(against) as r
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges;
  return recorder.withdraw_claims(of_stream, of_category, of_symbol, of_type, of_interval, whole, why);
end
$$;

-- Ends evidence in ranges whose rows agree with it by now.
create or replace function recorder.end_evidence(
  of_stream text, of_category market.category, of_symbol text, of_type text, of_interval text,
  of_verdict text, answered tstzmultirange
)
returns void language plpgsql set search_path = pg_catalog, pg_temp set enable_seqscan = off as $$
begin
  update recorder.ledger k set ranges = k.ranges - answered
  where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
    and k.verdict = of_verdict and k.ranges && answered
    and k.part > recorder.evidence_from(of_stream, answered) and k.part < upper(answered);
  delete from recorder.ledger k
  where recorder.is_of(k, of_stream, of_category, of_symbol, of_type, of_interval)
    and k.verdict = of_verdict and isempty(k.ranges)
    and k.part > recorder.evidence_from(of_stream, answered) and k.part < upper(answered);
end
$$;

-- Ends evidence that is older, but for candles, which the service gives for ever. What it kept open of gaps is lost. The
-- rest of a gap has younger evidence, and stays open.
create or replace function recorder.give_up_evidence(older interval)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  with old as (
    delete from recorder.ledger k
    where k.verdict in ('contradicted', 'disputed') and k.noted_at < now() - older and k.stream <> 'candles'
    returning k.*
  ), given_up as (
    select stream, category, symbol, type, interval, range_agg(r) as against
    from old cross join lateral unnest(ranges) as r group by 1, 2, 3, 4, 5
  ), touched as (
    delete from recorder.ledger k using given_up g
    where recorder.is_of(k, g.stream, g.category, g.symbol, g.type, g.interval)
      and k.verdict = 'missing' and k.ranges && g.against
    returning k.*, g.against
  ), pieces as (
    -- Two gaps that overlap may leave pieces with the same beginning. The longer one stays.
    select distinct on (stream, category, symbol, type, interval, verdict_now, lower(piece)) t.*, verdict_now, piece
    from touched t cross join lateral (
      select 'lost' as verdict_now, unnest(t.ranges * t.against) as piece
      union all select 'missing', unnest(t.ranges - t.against)
    ) p
    order by stream, category, symbol, type, interval, verdict_now, lower(piece), upper(piece) desc
  )
  insert into recorder.ledger as k (
    stream, category, symbol, type, interval, verdict, part, ranges, reason, noted_at, settled_at, rows_before
  )
  select stream, category, symbol, type, interval, verdict_now, lower(piece), tstzmultirange(piece),
    case verdict_now when 'lost' then (
      select min(o.reason) from old o
      where (o.stream, o.category, o.symbol, o.type, o.interval) = (p.stream, p.category, p.symbol, p.type, p.interval)
        and o.ranges && piece) else reason end,
    noted_at, case verdict_now when 'lost' then now() end,
    least(rows_before, recorder.count_rows(stream, category, symbol, type, interval, tstzmultirange(piece)))
  from pieces p order by id
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges
$$;

-- Returns the minutes of a range that have a closed candle or a fill. The range begins and ends with a minute. volume:
-- of the candle; null without one, or if the service does not tell it. size: of the stored fills. are_within: no fill
-- is priced outside of the candle. do_meet: the first and the last fill have the candle's open and close. Fills are not
-- restated, so that the candle is taken as it was before its first restatement. The work grows with the rows of the
-- range, and never with its length. The function has no settings, so that the planner inlines it, and every name in it
-- has its schema.
create or replace function recorder.fill_minutes(
  of_category market.category, of_symbol text, since timestamptz, until timestamptz
)
returns table (minute timestamptz, volume numeric, size numeric, are_within boolean, do_meet boolean)
language sql stable as $$
  select coalesce(c.open_time, f.minute), c.volume, coalesce(f.size, 0),
    coalesce(f.lowest >= c.low and f.highest <= c.high, true),
    c.open is null or f.first is null or exists (
      select from market.fills t
      where t.category = of_category and t.symbol = of_symbol and t.ts = f.first and t.price = c.open
        and t.ts >= since and t.ts < until
    ) and exists (
      select from market.fills t
      where t.category = of_category and t.symbol = of_symbol and t.ts = f.last and t.price = c.close
        and t.ts >= since and t.ts < until)
  from (
    -- Fills of coin futures have their size in quote coin, so that it is compared with the turnover.
    select c.open_time, coalesce(r.old_open, c.open) as open, coalesce(r.old_high, c.high) as high,
      coalesce(r.old_low, c.low) as low, coalesce(r.old_close, c.close) as close,
      case when of_category = 'COIN-FUTURES'
        then case when r.id is null then c.quote_turnover else r.old_quote_turnover end
        else case when r.id is null then c.base_volume else r.old_base_volume end end as volume
    from market.candles c left join (
      select distinct on (open_time) *
      from recorder.candle_revision
      where category = of_category and symbol = of_symbol and type = 'market' and interval = '1m'
        and open_time >= since and open_time < until and is_restatement
      order by open_time, id
    ) r on r.open_time = c.open_time
    where c.category = of_category and c.symbol = of_symbol and c.type = 'market' and c.interval = '1m'
      and c.open_time >= since and c.open_time < until and c.is_closed
  ) c full join (
    select pg_catalog.date_trunc('minute', t.ts, 'UTC') as minute, pg_catalog.sum(t.size) as size,
      pg_catalog.min(t.price) as lowest, pg_catalog.max(t.price) as highest,
      pg_catalog.min(t.ts) as first, pg_catalog.max(t.ts) as last
    from market.fills t
    where t.category = of_category and t.symbol = of_symbol and t.ts >= since and t.ts < until
    group by 1
  ) f on f.minute = c.open_time
$$;

-- Returns the minutes that ranges touch.
create or replace function recorder.whole_minutes(touched tstzmultirange)
returns tstzmultirange language sql stable set search_path = pg_catalog, pg_temp as $$
  select coalesce(range_agg(tstzrange(date_trunc('minute', lower(r), 'UTC'),
    date_trunc('minute', upper(r) + interval '1 minute' - interval '1 microsecond', 'UTC'))), '{}')
  from unnest(touched) as r
$$;

-- Compares whole minutes of fills with their closed candles. A candle that counts more than the fills of a minute that
-- is claimed whole contradicts that minute, and so do prices that do not fit. Where a candle and the fills agree,
-- nothing else was traded: evidence ends, and its minute is claimed. Of others, that part is claimed for which a live
-- response was asked later. Such a part may rest on a candle that counts more later, which then contradicts it. A
-- dispute that was given up stays lost. The caller has locked the series of the fills.
create or replace function recorder.weigh_minutes(
  of_category market.category, of_symbol text, minutes tstzmultirange, by text
)
returns void language plpgsql set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  volume_reason constant text := 'the candle of this minute shows more than the fills that are stored';
  price_reason constant text := 'the prices of the stored fills do not fit the candle of this minute';
  -- Variables, so that the planner leaves out chunks of other times.
  since timestamptz;
  until timestamptz;
  claimed tstzmultirange;
  silent tstzmultirange;
  asked tstzmultirange;
  contradicted tstzmultirange;
  compared tstzmultirange;
  agreeing tstzmultirange := '{}';
  lacking tstzrange[];
  unfit tstzrange[];
begin
  select coalesce(range_agg(r), '{}') into claimed
  from recorder.rows_within('fills', of_category, of_symbol, '', '', '{recorded}', recorder.whole_minutes(minutes)) k
  cross join lateral unnest(k.ranges) as r;
  select coalesce(range_agg(tstzrange(k.asked_since, k.noted_at)), '{}') into asked from recorder.ledger k
  where recorder.is_of(k, 'fills', of_category, of_symbol, '', '') and k.verdict = 'unsettled';
  select coalesce(range_agg(r), '{}') into contradicted
  from recorder.ledger k cross join lateral unnest(k.ranges) as r
  where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
    and k.verdict = 'contradicted' and k.part > lower(minutes) - interval '1 minute' and k.part < upper(minutes);
  -- Only what is known of candles can speak. A page may reach years back, to where no candle is stored. Candles of
  -- contradicted minutes are stored where an archive was adopted, which made them final.
  -- What retention left of older minutes says nothing.
  compared := recorder.whole_minutes(minutes * (claimed + asked + contradicted))
    * tstzmultirange(tstzrange(upper(recorder.whole_minutes(tstzmultirange(tstzrange(null,
      recorder.fills_kept_from(of_category, of_symbol))))), null)) * (
    recorder.ranges_of(of_category, of_symbol, 'market', '1m', 'recorded')
    + case when isempty(contradicted) then '{}' else
      recorder.ranges_of(of_category, of_symbol, 'market', '1m', 'final') end);
  if isempty(compared) then
    return;
  end if;
  select coalesce(range_agg(r), '{}') * compared into silent
  from recorder.rows_within('candles', of_category, of_symbol, 'market', '1m', '{silent,no trade}', compared) k
  cross join lateral unnest(k.ranges) as r;
  -- Day by day, so that each statement looks at a chunk or two of a table that has many.
  for since, until in
    select greatest(lower(r), day), least(upper(r), day + interval '24 hours')
    from unnest(compared) as r cross join lateral generate_series(
      date_trunc('day', lower(r), 'UTC'), upper(r) - interval '1 millisecond', interval '24 hours') as day
  loop
    select agreeing + coalesce(range_agg(whole) filter (where m.volume = m.size and m.are_within and m.do_meet), '{}'),
      lacking || array_agg(whole) filter (where m.volume > m.size and (claimed @> whole or claimed && whole and exists (
        select from recorder.candle_revision c
        where (c.category, c.symbol, c.type, c.interval, c.open_time) = (of_category, of_symbol, 'market', '1m', m.minute)
          and case of_category when 'COIN-FUTURES' then c.old_quote_turnover else c.old_base_volume end <= m.size))),
      unfit || array_agg(whole) filter (where not m.are_within or (not m.do_meet and claimed @> whole)),
      silent - coalesce(range_agg(whole), '{}')
      into agreeing, lacking, unfit, silent
    from recorder.fill_minutes(of_category, of_symbol, since, until) m
    cross join lateral (select tstzrange(m.minute, m.minute + interval '1 minute') as whole) w;
  end loop;
  agreeing := agreeing + silent;
  if lacking is not null then
    perform recorder.note_evidence('fills', of_category, of_symbol, '', '', lacking, volume_reason);
  end if;
  if unfit is not null then
    perform recorder.note_evidence('fills', of_category, of_symbol, '', '', unfit, price_reason);
  end if;
  if not claimed @> agreeing then
    if contradicted && agreeing then
      perform recorder.end_evidence('fills', of_category, of_symbol, '', '', 'contradicted', agreeing);
    end if;
    perform recorder.claim_fills(of_category, of_symbol, agreeing * (asked + contradicted) - claimed - coalesce((
      select range_agg(r) from recorder.ledger k cross join lateral unnest(k.ranges) as r
      where recorder.is_of(k, 'fills', of_category, of_symbol, '', '')
        and k.verdict = 'lost' and recorder.evidence_of(k.reason) = 'disputed'
        and k.part > lower(agreeing) - interval '1 minute' and k.part < upper(agreeing)), '{}'), now(), by);
  end if;
end
$$;
