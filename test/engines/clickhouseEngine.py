"""ClickHouse, in this process, over the table functions for Iceberg."""

import json
import os
from datetime import datetime
from decimal import Decimal

# Files are read below the working directory alone.
os.chdir("/")
import chdb  # noqa: E402
from chdb import session  # noqa: E402
from common import report, request  # noqa: E402

server = session.Session()
server.query("create database market")
server.query("set session_timezone = 'UTC', join_use_nulls = 1, final = 0")
for name, location in request["tables"].items():
    folder = location.rsplit("/metadata/", 1)[0]
    if request["s3"]:
        s3 = request["s3"]
        url = folder.replace("s3://", f"{s3['endpoint']}/")
        source = f"icebergS3('{url}', '{s3['key']}', '{s3['secret']}')"
    else:
        source = f"icebergLocal('{folder.removeprefix('file://')}')"
    server.query(f"create view market.{name} as select * from {source}")


def value_of(kind, text):
    inner = kind.removeprefix("LowCardinality(").removeprefix("Nullable(")
    if text is None:
        return None
    if inner.startswith("Decimal"):
        return Decimal(text)
    if inner.startswith("DateTime"):
        return datetime.fromisoformat(text)
    if inner.startswith("Float"):
        return float(text)
    return text


def ask(sql):
    settings = (
        "session_timezone = 'UTC', join_use_nulls = 1, output_format_json_quote_decimals = 1, "
        "output_format_json_quote_64bit_integers = 1, output_format_decimal_trailing_zeros = 0"
    )
    found = json.loads(server.query(f"{sql} settings {settings}", "JSONCompact").bytes())
    kinds = [column["type"] for column in found["meta"]]
    return [[value_of(kind, text) for kind, text in zip(kinds, row)] for row in found["data"]]


report(f"ClickHouse {chdb.engine_version} (chdb {chdb.__version__})", ask)
