"""Tables through Spark Connect, where our code runs on the server and the frames are of other classes."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.tables import rows

# In a process of its own: a session of Spark Connect and a classic one don't live in one.
PROGRAM = """
import os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession, functions as F
from headrace.spark.tables import rows, upsert, upsert_batch

folder = sys.argv[1]
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert "connect" in type(spark).__module__
upsert_batch(spark.range(3).withColumn("v", F.lit("x")), f"sqlite:{folder}/t.db", "static", ["id"])
events = spark.readStream.schema("k string, v int").json(f"{folder}/in")
counts = events.groupBy("k").agg(F.sum("v").alias("total"))

def run(name, frame, table, key, mode, **named):
    writer = upsert(frame, f"sqlite:{folder}/t.db", table, key, **named).outputMode(mode)
    query = writer.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    except Exception as error:
        print(error)

run("a", counts, "unnamed", ["k"], "update")
run("b", counts, "named", ["k"], "update", query="counts")
run("c", events, "log", [], "append")
spark.stop()
"""


def test_a_stream_on_spark_connect_keeps_its_table(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--soak"):
        pytest.skip("a Spark Connect server takes long to start: run with --soak")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text(
        "".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in (("a", 1), ("b", 2), ("a", 3)))
    )
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    into = f"sqlite:{tmp_path}/t.db"
    assert rows(into, "static") == [{"id": number, "v": "x"} for number in range(3)]
    assert rows(into, "unnamed") == rows(into, "named") == [{"k": "a", "total": 4}, {"k": "b", "total": 2}]
    connection = sqlite3.connect(tmp_path / "t.db")
    assert connection.execute("SELECT * FROM _headrace_batches").fetchall() == [("counts", "named", 0)]
    assert "without key columns a replayed batch must be known again" in ended.stdout
