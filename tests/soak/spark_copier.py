"""Two streaming queries in a process of their own that a test can kill: `python spark_copier.py BOOTSTRAP FOLDER MASTER`.

`plain` copies the topic `source` as it is; `shuffled` copies each value once, which takes a shuffle and state. Both write
exactly once. Ends when a query ends, and the test starts another one.
"""

from __future__ import annotations

import sys

from headrace.spark.session import session


def main(bootstrap: str, folder: str, master: str) -> None:
    spark = session(
        "copier",
        master,
        {"spark.driver.memory": "600m", "spark.sql.shuffle.partitions": "3", "spark.executor.memory": "512m"},
        quick=True,
    )
    for name in ("plain", "shuffled"):
        rows = (
            spark.readStream.format("headrace")
            .options(**{"kafka.bootstrap.servers": bootstrap, "subscribe": "source", "startingOffsets": "earliest"})
            .option("maxOffsetsPerTrigger", 150)
            .load()
            .selectExpr("key", "value")
        )
        if name == "shuffled":
            rows = rows.dropDuplicates(["value"])
        (
            rows.writeStream.format("headrace")
            .options(**{"kafka.bootstrap.servers": bootstrap, "topic": name, "checkpointLocation": f"{folder}/{name}"})
            .queryName(name)
            .start()
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
