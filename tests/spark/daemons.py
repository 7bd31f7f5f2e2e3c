"""Spark's own servers, started from the installed package: a standalone master and workers, a Spark Connect server.

All of them listen on 127.0.0.1 and on ports of their own choice, which they write into their logs.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 180
SMALL = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss1m"
LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""


class Daemon:
    def __init__(self, name: str, script: str, *arguments: str, folder: Path, **environment: str) -> None:
        from pyspark.find_spark_home import _find_spark_home

        home = Path(_find_spark_home())
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "log4j2.properties").write_text(LOG4J)
        self.name = name
        self.log = folder / f"{name}.log"
        options = f"{SMALL} -Dlog4j2.configurationFile={folder / 'log4j2.properties'}"
        own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "SPARK_DAEMON_MEMORY": "160m"}
        with self.log.open("wb") as file:
            self._process = subprocess.Popen(
                [str(home / "bin" / script), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                cwd=folder,
                env=os.environ | own | {"SPARK_DAEMON_JAVA_OPTS": options} | environment,
            )

    def says(self, pattern: str) -> str:
        """Waits for a line of its log; the group of the pattern."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, text := self.log.read_text(errors="replace"))) is None:
            assert self._process.poll() is None, f"{self.name} has ended: {text[-3000:]}"
            assert time.monotonic() < deadline, f"{self.name} did not say {pattern}: {text[-3000:]}"
            time.sleep(0.1)
        return found[1]

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[tuple[str, list[Daemon]]]:
    """The master's URL and its workers, with one core each."""
    started: list[Daemon] = []
    try:
        listening = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        master = Daemon("master", "spark-class", "org.apache.spark.deploy.master.Master", *listening, folder=folder)
        started.append(master)
        url = master.says(r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            own = folder / f"worker-{number}"
            arguments = (*listening, "--cores", "1", "--memory", "700m", "--work-dir", str(own), url)
            started.append(
                Daemon(f"worker-{number}", "spark-class", "org.apache.spark.deploy.worker.Worker", *arguments, folder=own)
            )
        for worker in started[1:]:
            worker.says(r"(Successfully registered with master)")
        yield url, started[1:]
    finally:
        for daemon in reversed(started):
            daemon.stop()


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """A Spark Connect server on local[2]; its URL."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": f"{SMALL} -Dlog4j2.configurationFile={folder / 'log4j2.properties'}",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    server = Daemon(
        "connect",
        "spark-submit",
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "--master", "local[2]"),
        *conf,
        "spark-internal",
        folder=folder,
        SPARK_DAEMON_MEMORY="768m",
    )
    try:
        port = server.says(r"Spark Connect server started at: \S*?:(\d+)")
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.stop()
