"""The one place for Spark settings: a session tuned for quick starts and small batches on one machine, or on a cluster.

    session("orders")                                  # local[*]
    session("orders", "spark://master:7077")           # a standalone cluster; also yarn, k8s://…
    session("orders", remote="sc://host:15002")        # a Spark Connect server; needs no Java here

What is given in `settings` wins over what is set here. With `log` everything that Spark, Java and the Python workers write
goes to that file and the terminal stays free.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.spark.class_archive import archive_options, cache_folder
from headrace.spark.java import Java, require_spark
from headrace.spark.lean_home import lean_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"

# What a session may be given at any time, on a Spark Connect server, too.
RUNTIME_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    # Exactly-once needs the same tasks when a batch is replayed, and adaptive execution would choose them by what it sees.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # A batch writes what it changed; snapshots of the state are made in the background.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

CLUSTER_SETTINGS = RUNTIME_SETTINGS | {
    "spark.sql.shuffle.partitions": "16",  # Spark's 200 are for large batches; a stateful query keeps the number it began with
    "spark.ui.showConsoleProgress": "false",
}

LOCAL_SETTINGS = CLUSTER_SETTINGS | {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(max(2, min(4, os.cpu_count() or 2))),
    "spark.locality.wait": "0s",
}

_JAVA_OPTIONS = ("-XX:+UseParallelGC",)
_QUICK = ("-XX:TieredStopAtLevel=1",)  # compiles sooner and less well: for runs of seconds

_LOG4J = """\
rootLogger.level = ${sys:headrace.log.level:-warn}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
# With the name of the query where its thread has one; runner/log_lines.py reads it.
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC} %p %c{1}%notEmpty{ [QUERY]}: %m%n%ex
# Nothing that anybody could or should do something about:
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.aqe.name = org.apache.spark.sql.execution.streaming.runtime.ResolveWriteToStream
logger.aqe.level = error
logger.batches.name = org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
logger.batches.level = error
logger.stopping.name = org.apache.spark.scheduler.DAGScheduler
logger.stopping.level = error
""".replace("QUERY", r"%replace{%t}{stream execution thread for (.+) .id = .*|.*}{$1}")


def session(
    name: str = "headrace",
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    remote: str | None = None,
    log: Path | None = None,
    quick: bool = False,
) -> SparkSession:
    """Raises SparkUnavailable, with words that help, where PySpark or Java is missing. `quick` is for runs of seconds."""
    java = require_spark(remote=remote is not None)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    own = dict(settings or {})
    if remote is not None:
        return _remote_session(name, remote, own)
    local = master.startswith("local")
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        _use_lean_home()
    chosen = {**(LOCAL_SETTINGS if local else CLUSTER_SETTINGS), **own}
    if java is not None:
        chosen["spark.driver.extraJavaOptions"] = _java_options(java, own.get("spark.driver.extraJavaOptions", ""), quick)
    return _classic_session(name, master, chosen, log)


def _use_lean_home() -> None:
    from pyspark.find_spark_home import _find_spark_home

    if "SPARK_HOME" not in os.environ:
        home = lean_home(_find_spark_home(), cache_folder(os.environ))
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)


def _remote_session(name: str, remote: str, settings: Mapping[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote).appName(name)
    for key, value in {**RUNTIME_SETTINGS, **settings}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _classic_session(name: str, master: str, settings: Mapping[str, str], log: Path | None) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if log is not None and SparkContext._gateway is None:
        conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name).setAll(list(settings.items()))
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            gateway = launch_gateway(conf, {"stdout": file, "stderr": file})  # type: ignore[no-untyped-call]
        SparkContext(conf=SparkConf(loadDefaults=True, _jvm=gateway.jvm).setMaster(master).setAppName(name), gateway=gateway)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _java_options(java: Java, given: str, quick: bool) -> str:
    """What is given comes last, because the last one counts."""
    from pyspark import __version__
    from pyspark.find_spark_home import _find_spark_home

    archive = archive_options(java, _find_spark_home(), __version__, os.environ)
    return " ".join([*_JAVA_OPTIONS, *(_QUICK if quick else ()), *archive, *_logging_options(), given]).strip()


def _logging_options() -> list[str]:
    file = cache_folder(os.environ) / "log4j2.properties"
    try:
        if not file.exists() or file.read_text() != _LOG4J:
            file.parent.mkdir(parents=True, exist_ok=True)
            # Others may be reading it.
            fresh = file.with_suffix(f".{os.getpid()}")
            fresh.write_text(_LOG4J)
            fresh.replace(file)
    except OSError:
        return []
    return [] if " " in str(file) else [f"-Dlog4j2.configurationFile={file}"]
