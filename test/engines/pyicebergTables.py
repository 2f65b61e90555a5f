"""Prints what PyIceberg, Polars and pandas read of each table of the catalog: rows, files and sums of its decimals, also of former snapshots."""

import json
import sys
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog

request = json.load(sys.stdin)
given = request["url"].replace("postgresql://", "postgresql+psycopg2://")
url = given + ("&" if "?" in given else "?") + "options=-csearch_path%3Diceberg"
catalog = SqlCatalog("recorder", uri=url, init_catalog_tables="false", **request.get("options", {}))


def read(table, snapshot_id):
    scan = table.scan(snapshot_id=snapshot_id)
    rows = scan.to_arrow()
    sums = {
        field.name: str(pc.sum(rows[field.name]).as_py() or Decimal(0))
        for field in rows.schema
        if pa.types.is_decimal(field.type)
    }
    # Polars and pandas by the same scan.
    assert scan.to_polars().height == len(scan.to_pandas()) == rows.num_rows
    return {"rows": rows.num_rows, "files": len(list(scan.plan_files())), "sums": sums}


found = {}
for identifier in catalog.list_tables("market"):
    table = catalog.load_table(identifier)
    found[identifier[1]] = [read(table, snapshot.snapshot_id) for snapshot in table.snapshots()]
print(json.dumps(found))
