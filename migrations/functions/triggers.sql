-- A trigger sees the values that are really replaced, whoever writes. It runs before the update, so that the claim in
-- the same statement sees what changed.
create or replace function recorder.log_candle_revision() returns trigger language plpgsql as $$
begin
  insert into recorder.candle_revision (
    category, symbol, type, interval, open_time, revised_at,
    old_open, old_high, old_low, old_close, old_base_volume, old_quote_turnover,
    new_open, new_high, new_low, new_close, new_base_volume, new_quote_turnover
  ) values (
    old.category, old.symbol, old.type, old.interval, old.open_time, clock_timestamp(),
    old.open, old.high, old.low, old.close, old.base_volume, old.quote_turnover,
    new.open, new.high, new.low, new.close, new.base_volume, new.quote_turnover
  );
  return new;
end
$$;
comment on function recorder.log_candle_revision is
  'Logs the old and new values of a closed candle that changes.';

-- TimescaleDB knows no "create or replace trigger" for its tables.
do $$
begin
  if not exists (select from pg_trigger
    where tgrelid = 'market.candles'::regclass and tgname = 'log_revision' and tgtype & 2 = 2)
  then
    drop trigger if exists log_revision on market.candles;
    create trigger log_revision before update on market.candles for each row
      when (old.is_closed and
        (old.open, old.high, old.low, old.close, old.base_volume, old.quote_turnover) is distinct from
        (new.open, new.high, new.low, new.close, new.base_volume, new.quote_turnover))
      execute function recorder.log_candle_revision();
  end if;
end
$$;
