"""Reads every snapshot of every table of the catalog again and again, until a file says to stop. Prints what could not be read."""

import json
import os
import sys

from pyiceberg.catalog.sql import SqlCatalog

request = json.load(sys.stdin)
given = request["url"].replace("postgresql://", "postgresql+psycopg2://")
url = given + ("&" if "?" in given else "?") + "options=-csearch_path%3Diceberg"
catalog = SqlCatalog("recorder", uri=url, init_catalog_tables="false", **request["options"])
rounds, reads, unreadable = 0, 0, []
read = set()


def look():
    global reads
    for identifier in catalog.list_tables("market"):
        table = catalog.load_table(identifier)
        for snapshot in table.snapshots():
            # The newest snapshot is read whole each time; of older ones all rows once, and their files each time.
            scan = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=("symbol",))
            files = list(scan.plan_files())
            rows = sum(task.file.record_count for task in files)
            if snapshot.snapshot_id not in read or snapshot is table.snapshots()[-1]:
                rows = scan.to_arrow().num_rows
            for task in files:
                table.io.new_input(task.file.file_path).open().close()
            expected = int(snapshot.summary["total-records"])
            if rows != expected:
                unreadable.append(f"{identifier} {snapshot.snapshot_id}: {rows} of {expected} rows")
            read.add(snapshot.snapshot_id)
            reads += 1


while True:
    is_last = os.path.exists(request["stop"])
    try:
        look()
    except Exception as error:  # noqa: BLE001 - whatever hinders a reader counts
        unreadable.append(f"{type(error).__name__}: {error}"[:300])
    rounds += 1
    if is_last:
        break
print(json.dumps({"rounds": rounds, "reads": reads, "snapshots": len(read), "unreadable": unreadable}))
