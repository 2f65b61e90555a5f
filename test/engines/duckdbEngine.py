"""DuckDB: iceberg_scan of the metadata that the catalog's table names."""

import glob
import sys

import duckdb
from common import report, request

connection = duckdb.connect()
for name in ("icu", "avro", "httpfs", "iceberg"):
    [path] = glob.glob(f"{sys.prefix}/lib/python*/site-packages/duckdb_extension_{name}/extensions/*/{name}.duckdb_extension")
    connection.execute(f"load '{path}'")
connection.execute("set TimeZone = 'UTC'")
if request["s3"]:
    s3 = request["s3"]
    host = s3["endpoint"].removeprefix("http://")
    connection.execute(
        f"create secret (type s3, key_id '{s3['key']}', secret '{s3['secret']}', endpoint '{host}', region '{s3['region']}',"
        " url_style 'path', use_ssl false)"
    )
connection.execute("create schema market")
for name, location in request["tables"].items():
    connection.execute(f"create view market.{name} as select * from iceberg_scan('{location}')")


def ask(sql):
    return connection.execute(sql).fetchall()


report(f"DuckDB {duckdb.__version__}", ask)
