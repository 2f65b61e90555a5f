import { type Kysely, sql } from 'kysely'

/**
 * Audits claims of fills by closed candles: recorder.audit_fills. Of a minute that is claimed, the stored fills must have the volume
 * of its candle. Where they have less, fills are missing that no response has shown: the claim of that minute is withdrawn.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table recorder.fill_series add column audited_until timestamptz not null default '-infinity';
    comment on column recorder.fill_series.audited_until is
      'Claims of minutes before this were compared with the candles, or have waited for a candle in vain.';

    create function recorder.audit_fills(since timestamptz, at timestamptz)
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
      -- So many minutes of a series are compared in one call.
      most constant interval := '6 hours';
      why constant text := 'the candle of this minute shows more than the fills that are stored';
      s record;
      doubted tstzmultirange;
    begin
      for s in
        with series as materialized (
          select c.category, c.symbol,
            date_trunc('minute', greatest(coalesce(nullif(f.audited_until, '-infinity'), lower(last.ranges)), since), 'UTC') as begins,
            date_trunc('minute', upper(last.ranges), 'UTC') as ends
          from recorder.known c
          left join recorder.fill_series f on f.category = c.category and f.symbol = c.symbol
          cross join lateral (
            select l.ranges from recorder.known l
            where l.stream = 'fills' and l.category = c.category and l.symbol = c.symbol and l.type = '' and l.interval = ''
              and l.verdict = 'recorded' and not isempty(l.ranges)
            order by l.part desc limit 1
          ) last
          where c.stream = 'fills' and c.type = '' and c.interval = '' and c.verdict = 'recorded' and c.part = '-infinity'
        )
        select k.category, k.symbol, k.begins, k.ends,
          coalesce(min(m.minute) filter (where m.waits), least(k.ends, k.begins + most)) as until,
          range_agg(tstzrange(m.minute, m.minute + a_minute)) filter (where m.lacks) as lacking
        from series k cross join lateral (
          select minute, v.volume is null and minute > at - patience as waits, v.volume > f.size as lacks
          from generate_series(k.begins, least(k.ends, k.begins + most) - a_minute, a_minute) as minute
          left join lateral (
            -- Sizes of coin futures are in the quote coin.
            select case when k.category = 'COIN-FUTURES' then c.quote_turnover else c.base_volume end as volume
            from market.candles c
            where c.category = k.category and c.symbol = k.symbol and c.type = 'market' and c.interval = '1m'
              and c.open_time = minute and c.is_closed
          ) v on true
          left join lateral (
            select coalesce(sum(t.size), 0) as size from market.fills t
            where t.category = k.category and t.symbol = k.symbol and t.ts >= minute and t.ts < minute + a_minute
              and v.volume is not null
          ) f on true
        ) m
        where k.begins < k.ends
        group by k.category, k.symbol, k.begins, k.ends
      loop
        if not isempty(s.lacking) then
          perform recorder.lock_fills(array[s.category], array[s.symbol]);
          -- Only of what is claimed, and of what nobody has added since it was looked at.
          select range_agg(r * tstzrange(lower(m), upper(m))) into doubted
          from recorder.known c cross join lateral unnest(c.ranges) as r cross join lateral unnest(s.lacking) as m
          where c.stream = 'fills' and c.category = s.category and c.symbol = s.symbol and c.type = '' and c.interval = ''
            and c.verdict = 'recorded' and r && m;
          if not isempty(doubted) then
            perform recorder.withdraw_fills(s.category, s.symbol, doubted);
            perform recorder.lose_fills(s.category, s.symbol, doubted, why);
            return query
              select s.category, s.symbol, lower(m) from unnest(s.lacking) as m where tstzmultirange(m) && doubted order by 3;
          end if;
        end if;
        if s.until > s.begins then
          insert into recorder.fill_series as f (category, symbol, audited_until) values (s.category, s.symbol, s.until)
          on conflict (category, symbol) do update set audited_until = excluded.audited_until;
        end if;
      end loop;
    end
    $$;
  `.execute(db)
}
