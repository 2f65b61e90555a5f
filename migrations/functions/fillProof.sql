-- Functions that keep what is proven of fills: locks, claims, gaps and contradictions. store_fills calls them.

-- Adds proven ranges to series that the caller has locked. parts names the row that a claim continues, or is null.
-- A null claim adds nothing.
create or replace function recorder.claim_fills(
  categories market.category[], symbols text[], parts timestamptz[], claims tstzmultirange[]
)
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into recorder.ledger as c (stream, category, symbol, type, interval, verdict, part, ranges)
  select 'fills', k.category, k.symbol, '', '', 'recorded', k.part, k.ranges
  from unnest(categories, symbols, parts, claims) as k (category, symbol, part, ranges)
  where k.part is not null and k.ranges is not null
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = c.ranges + excluded.ranges;
  if not exists (
    select from unnest(parts, claims) as k (part, ranges) where k.part is null and k.ranges is not null)
  then
    return;
  end if;
  insert into recorder.ledger as c (stream, category, symbol, type, interval, verdict, part, ranges)
  select 'fills', k.category, k.symbol, '', '', 'recorded', p.part, range_agg(r * tstzrange(p.part, p.until))
  from unnest(categories, symbols, parts, claims) as k (category, symbol, part, ranges)
  cross join lateral (
    select part, lead(part) over (order by part) as until from (
      -- Parts of the series, from the part that the claim begins in.
      select s.part from recorder.ledger s
      where (s.stream, s.category, s.symbol, s.type, s.interval) = ('fills', k.category, k.symbol, '', '')
        and s.verdict = 'recorded'
        and s.part >= (
          select max(b.part) from recorder.ledger b
          where (b.stream, b.category, b.symbol, b.type, b.interval) = ('fills', k.category, k.symbol, '', '')
            and b.verdict = 'recorded'
            and b.part <= lower(k.ranges))
      union
      select upper(n.ranges) from (
        select s.ranges from recorder.ledger s
        where (s.stream, s.category, s.symbol, s.type, s.interval) = ('fills', k.category, k.symbol, '', '')
          and s.verdict = 'recorded'
        order by s.part desc limit 1
      ) n
      -- A part is full at 128 ranges, and the next one begins after a gap. Writing a full part takes a
      -- thousandth of a second, and two kilobytes of WAL.
      where upper(n.ranges) < lower(k.ranges) and (select count(*) from unnest(n.ranges)) >= 128
    ) as found
  ) p cross join lateral unnest(k.ranges) as r
  where k.part is null and k.ranges is not null and r && tstzrange(p.part, p.until)
  group by k.category, k.symbol, p.part
  on conflict (stream, category, symbol, type, interval, verdict, part) do update
    set ranges = c.ranges + excluded.ranges
    where not c.ranges @> excluded.ranges;
end
$$;

-- Keeps fills of a page that differ from stored ones, as rejected rows. Returns the milliseconds of these fills.
-- The hourly bound of other rejected rows does not hold here. These milliseconds lose their claim, and only these
-- rows show the other values. A page has few fills, so its request brings few rows.
create or replace function recorder.reject_fills(
  of_category market.category, of_symbol text, why text, at timestamptz, row_ms double precision[], row_exec_id text[],
  row_side market.side[], row_price numeric[], row_size numeric[], row_page integer[], of_page integer
)
returns tstzmultirange language sql set search_path = pg_catalog, pg_temp as $$
  with differing as materialized (
    select t.ts, jsonb_build_object('ts', r.time_ms, 'execId', r.exec_id, 'side', r.side, 'price', r.price::text,
      'size', r.size::text)::text as raw
    from unnest(row_ms, row_exec_id, row_side, row_price, row_size, row_page)
      as r (time_ms, exec_id, side, price, size, page)
    join market.fills t on t.category = of_category and t.symbol = of_symbol and t.ts = to_timestamp(r.time_ms / 1000)
      and t.exec_id = r.exec_id
    where r.page = of_page and (t.price <> r.price or t.size <> r.size or t.side <> r.side)
  ), kept as (
    insert into recorder.rejected_row as kept
      (digest, operation, parameters, reason, raw, raw_sha256, raw_bytes, first_seen_at, last_seen_at)
    select encode(sha256(convert_to(jsonb_build_array('fills', parameters, why, raw_sha256)::text, 'UTF8')), 'hex'),
      'fills', parameters, why, d.raw, raw_sha256, octet_length(d.raw), at, at
    from differing d
    cross join jsonb_build_object('category', of_category, 'symbol', of_symbol) as parameters
    cross join encode(sha256(convert_to(d.raw, 'UTF8')), 'hex') as raw_sha256
    on conflict (digest) do update
      set last_seen_at = excluded.last_seen_at, times_seen = kept.times_seen + 1
      where excluded.last_seen_at > kept.last_seen_at
  )
  select range_agg(tstzrange(ts, ts + interval '1 millisecond')) from differing
$$;

-- Withdraws a claim, of a series that the transaction has locked.
create or replace function recorder.withdraw_fills(of_category market.category, of_symbol text, doubted tstzmultirange)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  update recorder.ledger c set ranges = c.ranges - doubted
  where (c.stream, c.category, c.symbol, c.type, c.interval) = ('fills', of_category, of_symbol, '', '')
    and c.verdict = 'recorded'
    and c.ranges && doubted
$$;

-- Notes gaps of fills as open, because the service may have a history of them.
create or replace function recorder.note_missing_fills(
  of_category market.category, of_symbol text, missed tstzmultirange, why text
)
returns void language sql set search_path = pg_catalog, pg_temp as $$
  select recorder.note_gaps('fills', of_category, of_symbol, '', '', 'missing', missed, why)
$$;

-- Makes other transactions wait that change the proof of these series. It locks the row of each first part, in one
-- order. No row is locked before all rows exist, so that two transactions never wait for each other.
create or replace function recorder.lock_fills(categories market.category[], symbols text[])
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
  select 'fills', k.category, k.symbol, '', '', 'recorded', '{}'
  from unnest(categories, symbols) as k (category, symbol)
  where not exists (
    select from recorder.ledger c
    where (c.stream, c.category, c.symbol, c.type, c.interval) = ('fills', k.category, k.symbol, '', '')
      and c.verdict = 'recorded'
      and c.part = '-infinity')
  order by k.category, k.symbol
  on conflict do nothing;
  perform from unnest(categories, symbols) as k (category, symbol)
  join recorder.ledger c using (category, symbol)
  where c.stream = 'fills' and c.type = '' and c.interval = '' and c.verdict = 'recorded' and c.part = '-infinity'
  order by c.category, c.symbol for update of c;
end
$$;

-- Adds proven ranges of fills, each series at most once.
create or replace function recorder.cover_fills(categories market.category[], symbols text[], claims tstzmultirange[])
returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  perform recorder.lock_fills(categories, symbols);
  perform recorder.claim_fills(categories, symbols, array_fill(null::timestamptz, array[cardinality(symbols)]), claims);
end
$$;

-- Returns the minutes of a range, which begins with a minute, with the volume of the candle and the size of stored
-- fills. volume: null without a closed candle, or if the service does not tell it. Then size is 0. The function has
-- no settings, so that the planner inlines it, and every name in it has its schema.
create or replace function recorder.fill_minutes(
  of_category market.category, of_symbol text, since timestamptz, until timestamptz
)
returns table (minute timestamptz, volume numeric, size numeric) language sql stable as $$
  select m, c.volume, f.size
  from pg_catalog.generate_series(since, until - interval '1 millisecond', interval '1 minute') as m
  left join lateral (
    -- Fills of coin futures have their size in quote coin, so that it is compared with the turnover.
    select case when of_category = 'COIN-FUTURES' then quote_turnover else base_volume end as volume from market.candles
    where category = of_category and symbol = of_symbol and type = 'market' and interval = '1m'
      and open_time = m and open_time >= since and open_time < until and is_closed
  ) c on true
  left join lateral (
    select coalesce(pg_catalog.sum(t.size), 0) as size from market.fills t
    where t.category = of_category and t.symbol = of_symbol and t.ts >= m and t.ts < m + interval '1 minute'
      -- Without a volume there is nothing to compare with.
      and c.volume is not null
  ) f on true
$$;

create or replace function recorder.audit_fills(since timestamptz, at timestamptz)
returns table (category market.category, symbol text, minute timestamptz)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
#variable_conflict use_column
declare
  a_minute constant interval := '1 minute';
  -- A minute without a trade may have no candle, and one that was missed is fetched again within minutes.
  patience constant interval := '15 minutes';
  -- One call compares at most this much time of a series.
  most constant interval := '6 hours';
  why constant text := 'the candle of this minute shows more than the fills that are stored';
  s record;
  doubted tstzmultirange;
begin
  for s in
    with series as materialized (
      select c.category, c.symbol, k.claimed, date_trunc('minute', lower(k.claimed), 'UTC') as begins,
        date_trunc('minute', upper(k.claimed), 'UTC') as ends
      from recorder.ledger c
      left join recorder.ledger f
        on (f.stream, f.category, f.symbol, f.type, f.interval) = ('fills', c.category, c.symbol, '', '') and f.verdict = 'audited' and f.part = '-infinity'
      cross join lateral date_trunc('minute', greatest(upper(f.ranges), since), 'UTC') as next_minute
      cross join lateral (
        -- The minutes that were not audited yet may lie in several parts.
        select range_agg(r) as claimed from recorder.ledger p
        cross join lateral unnest(p.ranges * tstzmultirange(tstzrange(next_minute, null))) as r
        where (p.stream, p.category, p.symbol, p.type, p.interval) = ('fills', c.category, c.symbol, '', '')
          and p.verdict = 'recorded'
          and p.part >= (
            select max(b.part) from recorder.ledger b
            where (b.stream, b.category, b.symbol, b.type, b.interval) = ('fills', c.category, c.symbol, '', '')
              and b.verdict = 'recorded' and b.part <= next_minute)
      ) k
      where c.stream = 'fills' and c.type = '' and c.interval = '' and c.verdict = 'recorded' and c.part = '-infinity'
    )
    select k.category, k.symbol, k.begins, k.ends,
      coalesce(min(m.minute) filter (where m.waits), least(k.ends, k.begins + most)) as until,
      range_agg(tstzrange(m.minute, m.minute + a_minute)) filter (where m.lacks) as lacking
    from series k cross join lateral (
      select minute, volume is null and minute > at - patience as waits,
        -- Only whole minutes count, because a candle says nothing about the claimed part of a minute.
        volume > size and k.claimed @> tstzrange(minute, minute + a_minute) as lacks
      from recorder.fill_minutes(k.category, k.symbol, k.begins, least(k.ends, k.begins + most))
    ) m
    where k.begins < k.ends
    group by k.category, k.symbol, k.begins, k.ends
  loop
    if not isempty(s.lacking) then
      perform recorder.lock_fills(array[s.category], array[s.symbol]);
      -- Only ranges that are still claimed under the lock are withdrawn.
      select range_agg(r * tstzrange(lower(m), upper(m))) into doubted
      from recorder.ledger c cross join lateral unnest(c.ranges) as r cross join lateral unnest(s.lacking) as m
      where (c.stream, c.category, c.symbol, c.type, c.interval) = ('fills', s.category, s.symbol, '', '')
        and c.verdict = 'recorded' and r && m;
      if not isempty(doubted) then
        perform recorder.withdraw_fills(s.category, s.symbol, doubted);
        perform recorder.note_missing_fills(s.category, s.symbol, doubted, why);
        return query
          select s.category, s.symbol, m from unnest(s.lacking) as r
          cross join lateral generate_series(lower(r), upper(r) - a_minute, a_minute) as m
          where doubted && tstzrange(m, m + a_minute) order by m;
      end if;
    end if;
    if s.until > s.begins then
      insert into recorder.ledger (stream, category, symbol, type, interval, verdict, ranges)
      values ('fills', s.category, s.symbol, '', '', 'audited', tstzmultirange(tstzrange(null, s.until)))
      on conflict (stream, category, symbol, type, interval, verdict, part) do update set ranges = excluded.ranges;
    end if;
  end loop;
end
$$;
