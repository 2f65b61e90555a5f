"""Answers the functions for analysts from recorded rows, and compares the answers with those of the database.

Reads a line of JSON for each table ({"table", "rows"}) and each call ({"call", "args", "rows"}). Prints what differs.
Numbers are fractions, so that nothing is rounded. It needs Python's standard library alone.
"""

import json
import math
import sys
from bisect import bisect_left, bisect_right
from collections import defaultdict
from datetime import datetime, timezone
from fractions import Fraction

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
LENGTHS = {"1m": MINUTE, "1H": HOUR, "1D": 24 * HOUR}
NO_ROWS = ([], [])

tables = {}


def us(moment):
    """Microseconds since 1970 of a time as PostgreSQL writes it."""
    delta = datetime.fromisoformat(moment) - EPOCH
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


class Close:
    """A number that need agree in twelve digits only, because it is a quotient, a root or a logarithm."""

    def __init__(self, value):
        self.value = value


def near(value):
    return None if value is None else Close(value)


def ratio(a, b):
    return None if a is None or b is None or b == 0 else Fraction(a) / b


def load(table, rows):
    series = defaultdict(lambda: ([], []))
    for row in rows:
        for name, value in row.items():
            if value is not None and (name.endswith("time") or name in ("ts", "valid_from", "valid_to")):
                row[name] = us(value)
        extra = (row["type"], row["interval"]) if table in ("candles", "coverage") else ()
        times, kept = series[(row["category"], row["symbol"], *extra)]
        times.append(row.get("ts", row.get("open_time", row.get("from_time", row.get("valid_from")))))
        kept.append(row)
    tables[table] = series


def between(table, key, begin, end):
    times, rows = tables[table].get(key, NO_ROWS)
    return rows[bisect_left(times, begin) : bisect_left(times, end)]


def newest(table, key, moment):
    times, rows = tables[table].get(key, NO_ROWS)
    place = bisect_right(times, moment)
    return [rows[place - 1]] if place else []


def closed(key, begin, end):
    return [row for row in between("candles", key, begin, end) if row["is_closed"]]


def is_covered(key, begin, end):
    return any(row["from_time"] <= begin and row["to_time"] >= end for row in tables["coverage"].get(key, NO_ROWS)[1])


def total(values):
    """A sum, unknown when one of the values is."""
    return None if None in values else sum(values)


def first_at_least(moment, step, origin):
    return origin + -((origin - moment) // step) * step


def ohlcv(category, symbol, width, from_time, to_time, origin=0):
    key = (category, symbol, "market", "1m")
    bins = defaultdict(list)
    for minute in closed(key, from_time, to_time):
        bins[origin + (minute["open_time"] - origin) // width * width].append(minute)
    for begin, minutes in sorted(bins.items()):
        end = begin + width
        expected = -(-end // MINUTE) + begin // -MINUTE
        is_whole = begin >= from_time and end <= to_time
        yield {
            "open_time": begin,
            "open": minutes[0]["open"],
            "high": max(m["high"] for m in minutes),
            "low": min(m["low"] for m in minutes),
            "close": minutes[-1]["close"],
            "base_volume": total([m["base_volume"] for m in minutes]),
            "quote_turnover": total([m["quote_turnover"] for m in minutes]),
            "minutes": len(minutes),
            "expected_minutes": expected,
            "is_complete": is_whole and (len(minutes) == expected or is_covered(key, begin, end)),
        }


def rollup(category, symbol, width):
    return ohlcv(category, symbol, width, -(10**18), 10**18)


def log_returns(category, symbol, width, from_time, to_time):
    key = (category, symbol, "market", "1m")
    earliest = from_time - 168 * 60 * MINUTE
    minutes = closed(key, earliest, to_time)
    times = [minute["open_time"] for minute in minutes]
    there = set(times)
    begin = first_at_least(from_time, width, 0)
    while minutes and begin < to_time:
        place = bisect_left(times, begin)
        inside = minutes[place : bisect_left(times, begin + width)]
        last = minutes[place - 1] if place > 0 else None
        is_known = False
        if last and begin + width <= to_time:
            # Every minute after the close before has a candle, or is proven to have none.
            since = range(last["open_time"] + MINUTE, begin + width, MINUTE)
            is_known = all(minute in there or is_covered(key, minute, minute + MINUTE) for minute in since)
        if inside:
            close = inside[-1]["close"]
            value = math.log1p((Fraction(close) - last["close"]) / last["close"]) if is_known else None
            yield {"open_time": begin, "close": close, "log_return": near(value)}
        elif is_known:
            yield {"open_time": begin, "close": last["close"], "log_return": near(0.0)}
        begin += width


def realized_volatility(category, symbol, width, from_time, to_time):
    rows = log_returns(category, symbol, width, from_time, to_time)
    found = [row["log_return"].value for row in rows if row["log_return"] is not None]
    mean = math.fsum(value * value for value in found) / len(found) if found else None
    yield {"value": None if mean is None else Close(math.sqrt(mean * 31_536_000 * SECOND / width))}


def candle_before(category, symbol, candle_interval, before):
    found = closed((category, symbol, "market", candle_interval), -(10**18), before)
    return [{"open_time": row["open_time"], "close": row["close"]} for row in found[-1:]]


def candles_without_gaps(category, symbol, candle_interval, from_time, to_time):
    key = (category, symbol, "market", candle_interval)
    length = LENGTHS[candle_interval]
    inside = {row["open_time"]: row for row in closed(key, from_time, to_time)}
    starts = sorted(inside)
    earlier = candle_before(category, symbol, candle_interval, from_time)
    step = earlier[0]["open_time"] if earlier else (starts[0] if starts else to_time)
    close = earlier[0]["close"] if earlier else None
    # Steps follow from the candle before; a stored candle stands at its own time, and steps go on from there.
    while step < to_time:
        place = bisect_right(starts, step)
        following = starts[place] if place < len(starts) else None
        if step >= from_time:
            row = inside.get(step)
            end = step + length if following is None else min(step + length, following)
            if row is None:
                prices = dict.fromkeys(("open", "high", "low", "close"), close)
                yield {"open_time": step, **prices, "base_volume": 0, "quote_turnover": 0, "is_filled": True,
                       "is_recorded": is_covered(key, step, end)}
            else:
                close = row["close"]
                names = ("open", "high", "low", "close", "base_volume", "quote_turnover")
                yield {"open_time": step, **{name: row[name] for name in names}, "is_filled": False,
                       "is_recorded": True}
        step = step + length if following is None else min(step + length, following)


def base_of(fill):
    return ratio(fill["size"], fill["price"]) if fill["category"] == "COIN-FUTURES" else fill["size"]


def quote_of(fill):
    return fill["size"] if fill["category"] == "COIN-FUTURES" else Fraction(fill["size"]) * fill["price"]


def base_sum(fills, side=None):
    value = sum(base_of(fill) for fill in fills if side in (None, fill["side"]))
    return Close(value) if fills and fills[0]["category"] == "COIN-FUTURES" else value


def vwap(category, symbol, from_time, to_time):
    fills = between("fills", (category, symbol), from_time, to_time)
    yield {"value": near(ratio(sum(map(quote_of, fills)), sum(map(base_of, fills))))}


def vwap_series(category, symbol, from_time, to_time, step, origin=0):
    bins = defaultdict(list)
    for fill in between("fills", (category, symbol), from_time, to_time):
        bins[origin + (fill["ts"] - origin) // step * step].append(fill)
    for begin, fills in sorted(bins.items()):
        yield {"open_time": begin, "vwap": near(ratio(sum(map(quote_of, fills)), sum(map(base_of, fills)))),
               "base_volume": base_sum(fills), "quote_turnover": sum(map(quote_of, fills)), "fills": len(fills)}


def volume_profile(category, symbol, from_time, to_time, price_step):
    bins = defaultdict(list)
    for fill in between("fills", (category, symbol), from_time, to_time):
        bins[fill["price"] // price_step * price_step].append(fill)
    for price, fills in sorted(bins.items()):
        yield {"price_from": price, "price_to": price + price_step, "base_volume": base_sum(fills),
               "quote_turnover": sum(map(quote_of, fills)), "buy_volume": base_sum(fills, "buy"),
               "sell_volume": base_sum(fills, "sell"), "fills": len(fills)}


def bars(measure):
    def answer(category, symbol, from_time, to_time, bar_size):
        bins = defaultdict(list)
        before = Fraction(0)
        for fill in between("fills", (category, symbol), from_time, to_time):
            bins[before // bar_size].append(fill)
            before += measure(fill)
        for place, (_, fills) in enumerate(sorted(bins.items())):
            prices = [fill["price"] for fill in fills]
            yield {"bar": place + 1, "open_time": fills[0]["ts"], "close_time": fills[-1]["ts"], "open": prices[0],
                   "high": max(prices), "low": min(prices), "close": prices[-1], "base_volume": base_sum(fills),
                   "quote_turnover": sum(map(quote_of, fills)), "buy_volume": base_sum(fills, "buy"),
                   "fills": len(fills)}

    return answer


def fill_sizes(category, symbol, from_time, to_time):
    for fill in between("fills", (category, symbol), from_time, to_time):
        base = near(base_of(fill)) if category == "COIN-FUTURES" else base_of(fill)
        yield {"ts": fill["ts"], "exec_id": fill["exec_id"], "base": base, "quote": quote_of(fill)}


def mid_of(book):
    sides = (book["bid_prices"], book["ask_prices"])
    return Fraction(sides[0][0] + sides[1][0]) / 2 if all(sides) else None


def spread_bps(bid, ask):
    return None if not bid or not ask else near(ratio((ask - bid) * 20_000, ask + bid))


def depth_within(prices, sizes, mid, within_bps):
    inside = [(p, s) for p, s in zip(prices, sizes) if abs(p - mid) * 10_000 <= mid * within_bps]
    return {"size": sum(s for _, s in inside), "value": sum(p * Fraction(s) for p, s in inside),
            "levels": len(inside), "is_whole": len(inside) < len(prices)}


def depth_of_books(category, symbol, from_time, to_time, within_bps):
    for book in between("order_books", (category, symbol), from_time, to_time):
        if mid_of(book) is not None:
            depth = depth_within(book["bid_prices"], book["bid_sizes"], mid_of(book), within_bps)
            yield {"ts": book["ts"], **depth}


def book_depth(category, symbol, from_time, to_time, within_bps):
    for book in between("order_books", (category, symbol), from_time, to_time):
        mid = mid_of(book)
        if mid is not None:
            bid, ask = (depth_within(book[f"{s}_prices"], book[f"{s}_sizes"], mid, within_bps) for s in ("bid", "ask"))
            yield {"ts": book["ts"], "mid": mid, "spread_bps": spread_bps(book["bid_prices"][0], book["ask_prices"][0]),
                   "bid_size": bid["size"], "ask_size": ask["size"], "bid_value": bid["value"],
                   "ask_value": ask["value"], "is_whole": bid["is_whole"] and ask["is_whole"]}


def execution_price(category, symbol, from_time, to_time, quantity):
    for book in between("order_books", (category, symbol), from_time, to_time):
        left, paid = Fraction(quantity), Fraction(0)
        for price, size in zip(book["ask_prices"], book["ask_sizes"]):
            taken = min(left, size)
            left -= taken
            paid += taken * price
        yield {"ts": book["ts"], "price": near(ratio(paid, quantity)) if left == 0 else None}


def book_figures(category, symbol, from_time, to_time, within_bps):
    for book in between("order_books", (category, symbol), from_time, to_time):
        mid = mid_of(book)
        figures = {"imbalance": None, "microprice": None}
        if mid is not None:
            far = mid * within_bps / 10_000 if within_bps is not None else None
            bids, asks = (
                sum(size for level, (price, size) in enumerate(zip(book[f"{side}_prices"], book[f"{side}_sizes"]))
                    if (level == 0 if far is None else abs(price - mid) <= far))
                for side in ("bid", "ask")
            )
            bid, ask = book["bid_prices"][0], book["ask_prices"][0]
            figures = {"imbalance": near(ratio(bids - asks, bids + asks)),
                       "microprice": near(ratio(ask * bids + bid * asks, bids + asks))}
        yield {"ts": book["ts"], **figures}


def rpi_improvement(category, symbol, from_time, to_time):
    for book in between("rpi_order_books", (category, symbol), from_time, to_time):
        best = {}
        for kind in ("", "rpi_"):
            for side, choose in (("bid", max), ("ask", min)):
                levels = zip(book[f"{side}_prices"], book[f"{side}_{kind}sizes"])
                best[kind + side] = choose((price for price, size in levels if size > 0), default=None)
        bid, ask, rpi_bid, rpi_ask = best["bid"], best["ask"], best["rpi_bid"], best["rpi_ask"]
        better_bid = None if None in (bid, rpi_bid) else max(rpi_bid - bid, 0)
        better_ask = None if None in (ask, rpi_ask) else max(ask - rpi_ask, 0)
        twice = None if None in (bid, ask) else bid + ask
        yield {"ts": book["ts"], "visible_bid": bid, "visible_ask": ask, "rpi_bid": rpi_bid, "rpi_ask": rpi_ask,
               "bid_improvement": better_bid, "ask_improvement": better_ask,
               "bid_improvement_bps": None if better_bid is None else near(ratio(better_bid * 20_000, twice)),
               "ask_improvement_bps": None if better_ask is None else near(ratio(better_ask * 20_000, twice))}


def fills_with_quotes(category, symbol, from_time, to_time, max_age):
    key = (category, symbol)
    max_age = 10**18 if max_age is None else max_age
    quotes = [(t["ts"], 1, t["bid1_price"], t["ask1_price"]) for t in between("tickers", key, from_time - max_age, to_time)]
    for book in between("order_books", key, from_time - max_age, to_time):
        if mid_of(book) is not None:
            quotes.append((book["ts"], 2, book["bid_prices"][0], book["ask_prices"][0]))
    quotes = sorted(quote for quote in quotes if quote[2] and quote[3])
    for fill in between("fills", key, from_time, to_time):
        known = quotes[: bisect_right(quotes, (fill["ts"], 3))]
        quote = known[-1] if known and known[-1][0] >= fill["ts"] - max_age else (None, None, None, None)
        mid = None if quote[0] is None else Fraction(quote[2] + quote[3]) / 2
        sign = 1 if fill["side"] == "buy" else -1
        yield {"ts": fill["ts"], "exec_id": fill["exec_id"], "quote_ts": quote[0], "bid_price": quote[2],
               "ask_price": quote[3], "mid": mid,
               "effective_spread_bps": None if mid is None else near(ratio(sign * 20_000 * (fill["price"] - mid), mid))}


def at(table):
    def answer(category, symbol, from_time, to_time, max_age):
        oldest = -(10**18) if max_age is None else from_time - max_age
        return [{"ts": row["ts"]} for row in newest(table, (category, symbol), from_time) if row["ts"] >= oldest]

    return answer


def held(row, moment):
    return row["valid_from"] <= moment and (row["valid_to"] is None or row["valid_to"] > moment)


def instrument_at(category, symbol, moment):
    rows = tables["instrument_history"].get((category, symbol), NO_ROWS)[1]
    return [{"valid_from": row["valid_from"], "fund_interval": row["fund_interval"]} for row in rows if held(row, moment)]


def universe_at(moment):
    for key in sorted(tables["instrument_history"]):
        for row in instrument_at(*key, moment):
            yield {"category": key[0], "symbol": key[1], **row}


def funding_history(category, symbol, from_time, to_time):
    for settled in range(first_at_least(from_time, HOUR, 0), to_time, HOUR):
        listed = instrument_at(category, symbol, settled)
        if not listed:
            continue
        hours = listed[0]["fund_interval"] or 8
        seen = [t for t in between("tickers", (category, symbol), settled - hours * HOUR, settled) if t["funding_rate"] is not None]
        if settled // HOUR % 24 % hours == 0 and seen:
            yield {"settled_at": settled, "funding_rate": seen[-1]["funding_rate"], "fund_interval": hours,
                   "seen_at": seen[-1]["ts"]}


def on_grid(category, symbol, from_time, to_time, step, max_age):
    for moment in range(from_time, to_time, step):
        found = newest("tickers", (category, symbol), moment)
        if found and max_age is not None and found[0]["ts"] < moment - max_age:
            found = []
        row = found[0] if found else {"ts": None, "last_price": None}
        yield {"moment": moment, "ts": row["ts"], "last_price": row["last_price"]}


answers = {
    **{function.__name__: function for function in (
        ohlcv, rollup, log_returns, realized_volatility, candle_before, candles_without_gaps, vwap, vwap_series,
        volume_profile, fill_sizes, depth_of_books, book_depth, execution_price, book_figures, rpi_improvement,
        fills_with_quotes, instrument_at, universe_at, funding_history, on_grid)},
    "volume_bars": bars(base_of),
    "dollar_bars": bars(quote_of),
    **{f"{name}_at": at(f"{name}s") for name in ("ticker", "order_book", "rpi_order_book")},
}


def agrees(expected, found):
    if isinstance(expected, Close):
        if found is None:
            return False
        scale = max(abs(Fraction(expected.value)), Fraction(1, 10**9))
        return abs(Fraction(expected.value) - Fraction(found)) <= scale / 10**12
    if isinstance(found, str) and isinstance(expected, int):
        return us(found) == expected
    return expected == found


def compare(call, args, rows):
    expected = list(answers[call](**args))
    if len(expected) != len(rows):
        return f"{call}({args}): {len(rows)} rows, not {len(expected)}"
    for wanted, found in zip(expected, rows):
        for name, value in wanted.items():
            if name not in found or not agrees(value, found[name]):
                shown = float(value.value) if isinstance(value, Close) else value
                return f"{call}({args}): {name} is {found.get(name)}, not {shown}; row {found}"
    return None


def main():
    calls, rows, different = defaultdict(int), defaultdict(int), defaultdict(list)
    for line in sys.stdin:
        record = json.loads(line, parse_float=Fraction)
        if "table" in record:
            load(record["table"], record["rows"])
            continue
        calls[record["call"]] += 1
        rows[record["call"]] += len(record["rows"])
        difference = compare(record["call"], record["args"], record["rows"])
        if difference is not None:
            different[record["call"]].append(difference)
    shown = {call: [f"{len(found)} answers differ", *found[:2]] for call, found in different.items()}
    print(json.dumps({"calls": calls, "rows": rows, "different": shown}))


main()
