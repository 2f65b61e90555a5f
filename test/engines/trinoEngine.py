"""Trino's server over the JDBC catalog in PostgreSQL: started here in a folder of its own, and ended."""

import os
import shutil
import socket
import subprocess
import tempfile
import time

import trino
from common import report, request

home = f"{os.environ['ENGINES']}/trino-server"
java = f"{os.environ['TRINO_JAVA_HOME']}/bin/java"
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]

folder = tempfile.mkdtemp(prefix="market-recorder-trino-")


def write(path, lines):
    os.makedirs(os.path.dirname(f"{folder}/{path}"), exist_ok=True)
    with open(f"{folder}/{path}", "w", encoding="utf8") as file:
        file.write("\n".join(lines) + "\n")


files = ["fs.hadoop.enabled=true"]
if request["s3"]:
    s3 = request["s3"]
    files = [
        "fs.native-s3.enabled=true",
        f"s3.endpoint={s3['endpoint']}",
        f"s3.region={s3['region']}",
        "s3.path-style-access=true",
        f"s3.aws-access-key={s3['key']}",
        f"s3.aws-secret-key={s3['secret']}",
    ]
write("etc/node.properties", ["node.environment=test", "node.id=one", f"node.data-dir={folder}/data"])
write(
    "etc/config.properties",
    [
        "coordinator=true",
        "node-scheduler.include-coordinator=true",
        f"http-server.http.port={port}",
        f"discovery.uri=http://127.0.0.1:{port}",
        "node.internal-address=127.0.0.1",
        "query.max-memory=1GB",
        "query.max-memory-per-node=700MB",
    ],
)
write("etc/log.properties", ["io.trino=WARN"])
write(
    "etc/catalog/recorder.properties",
    [
        "connector.name=iceberg",
        "iceberg.catalog.type=jdbc",
        "iceberg.jdbc-catalog.driver-class=org.postgresql.Driver",
        f"iceberg.jdbc-catalog.connection-url={request['jdbc']}",
        f"iceberg.jdbc-catalog.connection-user={request['user']}",
        f"iceberg.jdbc-catalog.connection-password={request['password'] or 'none'}",
        "iceberg.jdbc-catalog.catalog-name=recorder",
        "iceberg.jdbc-catalog.schema-version=V1",
        f"iceberg.jdbc-catalog.default-warehouse-dir={request['warehouse']}",
        *files,
    ],
)
# Loading all other plugins takes most of a start.
os.makedirs(f"{folder}/plugin")
os.symlink(f"{home}/plugin/iceberg", f"{folder}/plugin/iceberg")
log = open(f"{folder}/server.log", "w", encoding="utf8")
server = subprocess.Popen(
    [
        java,
        "-Xmx1500M",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "--add-modules=jdk.incubator.vector",
        "-Djdk.attach.allowAttachSelf=true",
        "--sun-misc-unsafe-memory-access=allow",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        f"-Dlog.levels-file={folder}/etc/log.properties",
        f"-Dnode.data-dir={folder}/data",
        f"-Dconfig={folder}/etc/config.properties",
        "-Dnode.environment=test",
        "-Dnode.id=one",
        f"-Dcatalog.config-dir={folder}/etc/catalog",
        f"-Dplugin.dir={folder}/plugin",
        "-cp",
        f"{home}/lib/*",
        "io.trino.server.TrinoServer",
    ],
    cwd=folder,
    stdout=log,
    stderr=log,
)


def connect():
    return trino.dbapi.connect(
        host="127.0.0.1", port=port, user="test", catalog="recorder", schema="market", timezone="UTC", request_timeout=600
    )


def wait():
    while True:
        if server.poll() is not None:
            raise SystemExit(f"Trino has ended:\n{open(log.name, encoding='utf8').read()[-3000:]}")
        try:
            cursor = connect().cursor()
            cursor.execute("select version()")
            return cursor.fetchall()[0][0]
        except Exception:  # noqa: BLE001 - it is not ready yet
            time.sleep(1)


def ask(sql):
    cursor = connect().cursor()
    cursor.execute(sql)
    return cursor.fetchall()


def bytes_read(sql):
    cursor = connect().cursor()
    cursor.execute(sql)
    cursor.fetchall()
    return cursor.stats["physicalInputBytes"]


try:
    version = wait()
    report(f"Trino {version}", ask, bytes_read)
finally:
    server.terminate()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)
