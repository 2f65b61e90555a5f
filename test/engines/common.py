"""What the scripts share: a request comes as JSON on standard input, and the results go out as JSON."""

import json
import sys
from datetime import datetime, timezone
from decimal import Decimal

request = json.load(sys.stdin)


def plain(value):
    """Decimals and times as text; only floats stay numbers, which are compared with a tolerance."""
    if isinstance(value, float):
        return value
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        zoned = value.replace(tzinfo=timezone.utc) if value.tzinfo is None else value.astimezone(timezone.utc)
        return zoned.strftime("%Y-%m-%d %H:%M:%S.%f")
    return None if value is None else str(value)


def report(version, ask, bytes_read=None):
    """Asks every question and prints rows, or why there are none."""
    results = {}
    for question in request["questions"]:
        try:
            results[question["title"]] = {"rows": [[plain(value) for value in row] for row in ask(question["sql"])]}
        except Exception as error:  # noqa: BLE001 - every engine has errors of its own, and the next question may work
            results[question["title"]] = {"error": f"{type(error).__name__}: {error}"[:600]}
    read = bytes_read(request["narrow"]) if bytes_read else None
    json.dump({"version": version, "results": results, "bytesRead": read}, sys.stdout)
