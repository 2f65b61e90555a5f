"""A backtest on what was recorded: a market maker on one instrument, by hftbacktest.

    pip install hftbacktest 'psycopg[binary]'
    DATABASE_URL=postgresql://… python examples/backtest.py BTCUSDT --from 2026-03-01 --to 2026-03-08

First it prints how complete each day is. A day with a gap of fills, or with a longer time without a book than --pause,
is left out. What the rest can tell: every fill, to the millisecond, with its side. What it cannot: books are snapshots
some seconds apart, so the queue before an order, the orders between two books and the way to the exchange are unknown.
Here an order waits behind all that is shown at its price, moves up by fills and by what later books no longer show, and
the latency is a guess. Results at the scale of several books mean something; those of a faster strategy do not.
"""

import argparse
import os

import hftbacktest as hft
import numpy as np
import psycopg
from numba import njit

# What is traded, and guessed: time between two quotes, their size, and the latency each way.
every_ns, size, latency_ns = 10_000_000_000, 0.01, 50_000_000
length, of_instrument = "%(period)s::interval", "category = %(category)s::market.category and symbol = %(symbol)s"


def rows_between(table, since="%(since)s", until="%(until)s"):
    return f"from market.{table} where {of_instrument} and ts >= {since} and ts < {until}"


completeness = f"""
    select since, until,
      (select coalesce(sum(extract(epoch from least(to_time, until) - greatest(from_time, since))), 0)
       from market.coverage where stream = 'fills' and {of_instrument} and from_time < until and to_time > since)
        / extract(epoch from until - since) as proven,
      (select max(extract(epoch from later - ts)) from (
         select ts, lead(ts, 1, until) over (order by ts) as later
         from (select since as ts union select ts {rows_between("order_books", "since", "until")}) as t) as t) as pause
    from generate_series(%(from)s::timestamptz, %(to)s::timestamptz - {length}, {length}) as since
    cross join lateral (select since + {length} as until) as period"""


def events_of(books, fills):
    """Each book replaces the one before as far as it reaches."""
    rows = []
    for ms, *sides in books:
        for side, prices, sizes in ((hft.BUY_EVENT, *sides[:2]), (hft.SELL_EVENT, *sides[2:])):
            if prices:
                rows.append((hft.DEPTH_CLEAR_EVENT | side, ms, prices[-1], 0))
                rows.extend((hft.DEPTH_SNAPSHOT_EVENT | side, ms, price, size) for price, size in zip(prices, sizes))
    rows.extend((hft.TRADE_EVENT | (hft.BUY_EVENT if side == "buy" else hft.SELL_EVENT), *row) for side, *row in fills)
    rows.sort(key=lambda row: row[1])
    events = np.zeros(len(rows), hft.event_dtype)
    kinds, times, events["px"], events["qty"] = (np.array(column) for column in zip(*rows))
    events["ev"] = kinds.astype(np.uint64) | np.uint64(hft.EXCH_EVENT | hft.LOCAL_EVENT)
    events["exch_ts"] = times.astype(np.int64) * 1_000_000
    events["local_ts"] = events["exch_ts"] + latency_ns
    return events


@njit
def make_market(backtest, held):
    """Quotes at the best prices, and holds one size at most. Notes in `held` when it held what, and at which price."""
    steps = 0
    while steps < len(held) and backtest.elapse(every_ns) == 0:
        backtest.clear_inactive_orders(0)
        depth, position = backtest.depth(0), backtest.position(0)
        held[steps, 0], held[steps, 1] = backtest.current_timestamp, position
        held[steps, 2] = (depth.best_bid + depth.best_ask) / 2
        steps += 1
        orders = backtest.orders(0).values()
        while orders.has_next():
            order = orders.get()
            if order.cancellable:
                backtest.cancel(0, order.order_id, False)
        if position < size:
            backtest.submit_buy_order(0, steps * 2, depth.best_bid, size, hft.GTX, hft.LIMIT, False)
        if position > -size:
            backtest.submit_sell_order(0, steps * 2 + 1, depth.best_ask, size, hft.GTX, hft.LIMIT, False)
    return steps


def run(query, tick, lot, fee):
    ms, sides = "(extract(epoch from ts) * 1000)::float8", ("bid_prices", "bid_sizes", "ask_prices", "ask_sizes")
    arrays = ", ".join(f"{name}::float8[]" for name in sides)
    books = query(f"select {ms}, {arrays} {rows_between('order_books')} order by ts")
    in_order = f"{rows_between('fills')} order by ts, length(exec_id), exec_id"
    fills = query(f"select side, {ms}, price::float8, size::float8 {in_order}")
    rates = query(f"select {ms}, funding_rate::float8 {rows_between('funding_rates')}")
    events = events_of(books, fills)  # the engine keeps no reference
    asset = hft.BacktestAsset().data(events).linear_asset(1.0).constant_order_latency(latency_ns, latency_ns)
    asset = asset.risk_adverse_queue_model().no_partial_fill_exchange().trading_value_fee_model(fee, fee)
    backtest = hft.HashMapMarketDepthBacktest([asset.tick_size(tick).lot_size(lot)])
    held = np.zeros((int((books[-1][0] - books[0][0]) * 1e6 / every_ns), 3))
    held = held[: make_market(backtest, held)]
    state = backtest.state_values(0)
    result = state.balance + state.position * held[-1, 2] - state.fee
    settled = ((np.searchsorted(held[:, 0], at_ms * 1e6) - 1, rate) for at_ms, rate in rates)
    result -= sum(held[at, 1] * held[at, 2] * rate for at, rate in settled if at >= 0)
    return len(books), len(fills), state.num_trades, result


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("symbol")
parser.add_argument("--category", default="USDT-FUTURES", choices=["SPOT", "USDT-FUTURES", "USDC-FUTURES"])
for name in ("--from", "--to"):
    parser.add_argument(name, required=True)
parser.add_argument("--period", default="1 day", help="length of what is judged and run as a whole")
parser.add_argument("--pause", type=float, default=60, help="longest time without a book, seconds")
asked = vars(parser.parse_args())

with psycopg.connect(os.environ["DATABASE_URL"], options="-c timezone=UTC") as connection:
    days = connection.execute(completeness, asked).fetchall()
    columns = "10.0 ^ -price_precision, 10.0 ^ -quantity_precision, coalesce(maker_fee_rate, 0)"
    found = connection.execute(f"select {columns} from market.instruments where {of_instrument}", asked).fetchone()
    if found is None:
        raise SystemExit("{category} {symbol} is not recorded".format(**asked))
    used = [(since, until) for since, until, proven, pause in days if proven == 1 and pause <= asked["pause"]]
    for since, until, proven, pause in days:
        said = "used" if (since, until) in used else "left out"
        print(f"{since:%F %T}: {proven:.2%} of the time proven for fills, at most {pause:.1f} s without a book: {said}")
    print(f"{len(used)} of {len(days)} are used; books say nothing of what happened between two of them\n")
    for since, until in used:
        query = lambda sql: connection.execute(sql, {**asked, "since": since, "until": until}).fetchall()
        books, fills, trades, result = run(query, *(float(value) for value in found))
        print(f"{since:%F %T}: {books} books, {fills} fills, {trades} trades, result {result:+.4f}")
