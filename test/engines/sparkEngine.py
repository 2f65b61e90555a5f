"""Spark over the JDBC catalog in PostgreSQL."""

import glob
import os

import pyspark
from common import report, request
from pyspark.sql import SparkSession

jars = glob.glob(f"{os.environ['ENGINES']}/jars/*.jar")
catalog = "spark.sql.catalog.recorder"
builder = (
    SparkSession.builder.master("local[2]")
    .config("spark.jars", ",".join(jars))
    .config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", "4")
    .config("spark.sql.ansi.enabled", "true")
    .config("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    # Products of decimals keep their digits after the point.
    .config("spark.sql.decimalOperations.allowPrecisionLoss", "false")
    .config("spark.sql.defaultCatalog", "recorder")
    .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
    .config(f"{catalog}.type", "jdbc")
    .config(f"{catalog}.uri", request["jdbc"])
    .config(f"{catalog}.jdbc.user", request["user"])
    .config(f"{catalog}.jdbc.password", request["password"])
    .config(f"{catalog}.jdbc.schema-version", "V1")
    .config(f"{catalog}.warehouse", request["warehouse"])
)
if request["s3"]:
    s3 = request["s3"]
    for key, value in {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": s3["endpoint"],
        "s3.path-style-access": "true",
        "s3.access-key-id": s3["key"],
        "s3.secret-access-key": s3["secret"],
        "client.region": s3["region"],
    }.items():
        builder = builder.config(f"{catalog}.{key}", value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def ask(sql):
    return [tuple(row) for row in spark.sql(sql).collect()]


report(f"Spark {pyspark.__version__}", ask)
