"""One run of a pipeline: lock, session, function, watch, end. Whatever happens, the record says how it ended."""

from __future__ import annotations

import os
import signal
import socket
import time
import tomllib
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from headrace.spark.java import require_spark
from headrace.spark.runner.errors import PipelineFailed, RunnerError
from headrace.spark.runner.failing import useful_line
from headrace.spark.runner.feeding import RATE, BackgroundFeed
from headrace.spark.runner.finding import Found, find
from headrace.spark.runner.home import FAILED, FINISHED, RUNNING, STARTING, STOPPED, Home, RunRecord
from headrace.spark.runner.log_lines import ERROR, INFO
from headrace.spark.runner.progress import QueryStatus, utc_now
from headrace.spark.runner.publishing import Publisher, about
from headrace.spark.runner.settings import arguments
from headrace.spark.runner.starting import one_by_one
from headrace.spark.runner.telling import Teller
from headrace.spark.runner.watching import Ending, Spectator, Watch, quietly
from headrace.spark.session import LOCAL, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS_FILE = "pipelines.toml"

# Spark waits ten seconds for the Python process of a streaming source, and that is not a setting: on a busy machine it takes
# longer now and then. Nothing has been read by then, so the queries can be started once more.
_TOO_SLOW, _TRIES = "Python worker failed to connect back", 6


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run is told."""

    target: str
    data: Path
    server: str
    name: str | None = None
    tables: str | None = None
    master: str = LOCAL
    remote: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    available_now: bool = False
    for_s: float | None = None
    feed: bool = False
    rate: float = RATE
    publish: bool = True


class RunSpectator(Spectator):
    """What the command line does with a run; everything may be left out."""

    def starting(self, record: RunRecord) -> None: ...

    def fed(self, sent: int, trouble: str | None) -> None: ...

    def progressed(self, changed: Sequence[QueryStatus]) -> None: ...


class Run:
    """`signal_number` is the signal that ended it, if one did."""

    def __init__(self, options: RunOptions, spectator: RunSpectator) -> None:
        self._options = options
        self._spectator = spectator
        self._ending = Ending()
        require_spark(remote=options.remote is not None)
        self._found: Found = find(options.target)
        self._home = Home(options.data, options.name or self._found.name)
        self._arguments = arguments(
            self._found.function,
            {
                "bootstrap": options.server,
                "checkpoint": self._home.checkpoint,
                "tables": options.tables or self._home.tables,
            },
            options.settings,
        )
        if options.feed and self._found.domain is None:
            raise RunnerError(f"--feed is for pipelines of the gallery; {options.target} has no generator of events")
        self._publisher = Publisher(options.server) if options.publish else None
        self._feed: BackgroundFeed | None = None
        self._record = self._new_record()
        self._teller = (
            Teller(options.server, self._home.name, self._home.log, self._about) if self._publisher is not None else None
        )
        self._noted: dict[str, str] = {}  # the state of a query that was noted last

    @property
    def record(self) -> RunRecord:
        return self._record

    @property
    def signal_number(self) -> int | None:
        return self._ending.signal_number

    def run(self) -> None:
        """Returns when it has ended as it should; raises PipelineFailed when it failed."""
        with self._home.held(), _signals(self._ending):
            self._home.begin_log()
            self._save()
            self._spectator.starting(self._record)
            if self._teller is not None:
                self._teller.start()
            self._note(INFO, f"starts on {self._record.remote or self._record.master} as process {self._record.pid}")
            try:
                self._run()
            except Exception as error:
                known = isinstance(error, PipelineFailed)
                line = str(error) if known else useful_line(error)
                if not known:
                    self._note(ERROR, f"{line}\n{''.join(traceback.format_exception(error))}")
                self._end(FAILED, line)
                log = f"the log of {self._options.remote}" if self._options.remote else self._record.log
                failed = PipelineFailed(f"{self._record.pipeline}: {line}; the whole story is in {log}")
                raise failed from None if known else error

    def _run(self) -> None:
        if self._options.for_s is not None:
            self._ending.deadline = time.monotonic() + self._options.for_s
        spark = self._session()
        try:
            finished = self._patiently(spark)
            self._end(FINISHED if finished else STOPPED)
        finally:
            if self._feed is not None:
                self._feed.close()
            _disconnect(spark, remote=self._options.remote is not None)

    def _patiently(self, spark: SparkSession) -> bool:
        """Starts the queries again where Spark gave up on a Python process that was too slow to start."""
        for left in reversed(range(_TRIES)):
            watch = Watch(self._record.pipeline, _Relay(self), self._ending)
            try:
                return self._until_end(spark, watch)
            except Exception as error:
                if not left or _TOO_SLOW not in str(error):
                    raise
                for query in spark.streams.active:  # also those that were started before another one failed
                    quietly(query.stop)
            finally:
                watch.stop()
        raise AssertionError("the last try returns or raises")

    def _session(self) -> SparkSession:
        options = self._options
        spark_settings = {**_settings_file(options.data), **options.spark_settings}
        spark = session(
            self._record.pipeline, options.master, spark_settings, remote=options.remote, log=Path(self._record.log)
        )
        _install(self._ending)  # Spark has put its own in their place
        return spark

    def _until_end(self, spark: SparkSession, watch: Watch) -> bool:
        if self._ending.due:
            return False
        if self._options.available_now:
            self._start_feed()
            with one_by_one(spark, lambda query: watch.until_ended([query]), available_now=True):
                self._call(spark)
            return not self._ending.due
        with one_by_one(spark, watch.until_started):
            queries = self._call(spark)
        self._runs()
        for query in queries:
            watch.add(query)
        self._start_feed()
        return watch.until_ended(queries)

    def _call(self, spark: SparkSession) -> list[Any]:
        made = self._found.function(spark, **self._arguments)
        if made is None:
            return list(spark.streams.active)
        return list(made) if isinstance(made, list | tuple) else [made]

    def _start_feed(self) -> None:
        if self._options.feed and self._found.domain is not None and self._feed is None:
            self._feed = BackgroundFeed(self._options.server, self._found.domain, self._options.rate)

    # Telling

    def progressed(self, changed: Sequence[QueryStatus]) -> None:
        latest = {status["query"]: status for status in self._record.queries}
        latest |= {status.query: status.json() for status in changed}
        self._record.queries = list(latest.values())
        self._runs()
        self._save()
        for status in changed:
            if self._noted.get(status.run_id) != status.state:
                self._noted[status.run_id] = status.state
                level, why = (ERROR, f": {status.error}") if status.error else (INFO, "")
                self._note(level, f"the query is {status.state}{why}", status.query)
        if self._publisher is not None:
            self._publisher.publish([(status.key, status.json()) for status in changed])
        if self._feed is not None:
            self._spectator.fed(self._feed.sent, self._feed.trouble)
        self._spectator.progressed(changed)

    def _end(self, state: str, error: str | None = None) -> None:
        self._record.state, self._record.error, self._record.ended = state, error, utc_now()
        self._save()
        self._note(ERROR if error else INFO, f"{state}: {error}" if error else state)
        if self._teller is not None:
            self._teller.close()
        if self._publisher is not None:
            self._publisher.publish([(self._record.pipeline, self._about())])
            self._publisher.close()

    def _runs(self) -> None:
        if self._record.state != RUNNING:
            self._record.state = RUNNING
            if self._teller is not None:
                self._teller.tell()

    def _note(self, level: str, text: str, query: str = "") -> None:
        if self._teller is not None:
            self._teller.note(level, text, query)

    def _about(self) -> dict[str, Any]:
        return about(self._record, utc_now(), self._found.summary, (one.json() for one in self._found.shows))

    def _save(self) -> None:
        self._home.write(self._record)

    def _new_record(self) -> RunRecord:
        options = self._options
        return RunRecord(
            pipeline=self._home.name,
            target=options.target,
            state=STARTING,
            pid=os.getpid(),
            host=socket.gethostname(),
            started=utc_now(),
            server=options.server,
            tables=options.tables or self._home.tables,
            checkpoint=self._home.checkpoint,
            log=str(self._home.log),
            master=None if options.remote else options.master,
            remote=options.remote,
            settings=dict(options.settings),
        )


@dataclass(slots=True)
class _Relay(Spectator):
    run: Run

    def progressed(self, changed: Sequence[QueryStatus]) -> None:
        self.run.progressed(changed)


def _settings_file(data: Path) -> dict[str, str]:
    """`<data>/pipelines.toml`: a table [spark] with settings for every run, under their full names."""
    path = data / SETTINGS_FILE
    try:
        found = tomllib.loads(path.read_text()).get("spark", {})
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise RunnerError(f"{path} can't be read: {error}") from None
    flat = dict(_flat("", found))
    return {name if name.startswith("spark.") else f"spark.{name}": value for name, value in flat.items()}


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """TOML reads `sql.shuffle.partitions = 8` as a table in a table."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", str(value).lower() if isinstance(value, bool) else str(value)


@contextmanager
def _signals(ending: Ending) -> Iterator[None]:
    """The first signal asks the run to end; a second one does not wait for it."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    _install(ending)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _install(ending: Ending) -> None:
    def asked(number: int, frame: FrameType | None) -> None:
        if ending.signal_number is not None:
            raise KeyboardInterrupt
        ending.signal_number = number

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, asked)


def _disconnect(spark: SparkSession, *, remote: bool) -> None:
    """Ends the session and, of a classic one, the JVM that was started for it."""
    quietly(spark.stop)
    if remote:
        return
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None or gateway.proc is None:
        return
    quietly(gateway.shutdown)
    quietly(gateway.proc.stdin.close)  # it ends by itself then, and may write its archive of classes first
    SparkContext._gateway = SparkContext._jvm = None
