"""`headrace pipeline`: list, run, status, stop, reset, feed."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli import arguments
from headrace.cli.managing import confirm
from headrace.cli.session import CommandError, Session, Stopped, UsageError, add_command

if TYPE_CHECKING:
    from headrace.spark.runner.home import Home, RunRecord

app = typer.Typer(no_args_is_help=True, help="Pipelines on Spark: list, run, status, stop, reset, feed.")

GRACE_S = 30.0

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
DataOption = Annotated[
    Path, typer.Option("--data", metavar="DIR", envvar="HEADRACE_DATA", help="Where checkpoints, tables and logs are kept.")
]
RateOption = Annotated[
    float, typer.Option("--rate", metavar="N", min=0, help="Events a second of the feed; 0 is as fast as it goes.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DATA = Path("data")


def list_(session: Session) -> None:
    """List the gallery: pipelines that come with Headrace."""
    from headrace.spark.runner.finding import gallery

    found = gallery()
    if session.json:
        session.emit({"pipelines": [{"name": one.name, "summary": one.summary, "settings": one.settings} for one in found]})
        return
    session.table(("PIPELINE", "WHAT IT DOES"), [(one.name, one.summary) for one in found])
    session.note("'headrace pipeline run NAME --feed' runs one over events of its own.")


def run(
    session: Session,
    pipeline: Annotated[
        str,
        typer.Argument(
            metavar="PIPELINE",
            help="A name of the gallery, a dotted module, or file.py with a function 'pipeline'.",
            show_default=False,
        ),
    ],
    settings: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A setting of the pipeline; repeat for more.")
    ] = [],  # noqa: B006  typer copies it
    data: DataOption = DATA,
    tables: Annotated[
        str | None,
        typer.Option("--tables", metavar="URL", help="Where tables go.", show_default="a SQLite file in the data folder"),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Run it under this name, with a checkpoint of its own.", show_default=False)
    ] = None,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="A Spark cluster.", show_default="local[*]")
    ] = None,
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server: sc://host:15002.", show_default=False)
    ] = None,
    conf: Annotated[list[str], typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark; repeat for more.")] = [],  # noqa: B006
    feed: Annotated[bool, typer.Option("--feed", help="Write events for it meanwhile (gallery only).")] = False,
    rate: RateOption = 20.0,
    available_now: Annotated[bool, typer.Option("--available-now", help="Process what there is and end.")] = False,
    for_s: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", min=0.001, help="End after this long.", show_default=False)
    ] = None,
    publish: Annotated[bool, typer.Option(help="Publish progress and log to topics (headrace.pipelines).")] = True,
) -> None:
    """Run a pipeline on Spark until Ctrl-C, and show how it gets on."""
    with _explained():
        from headrace.cli.pipeline_view import view
        from headrace.spark.java import SparkUnavailable, require_spark
        from headrace.spark.runner.errors import BadSetting
        from headrace.spark.runner.publishing import tell_unavailable
        from headrace.spark.runner.running import Run, RunOptions
        from headrace.spark.runner.settings import pairs
        from headrace.spark.session import LOCAL

        if master and remote:
            raise UsageError("--master and --remote are two places to run: give one of them")
        try:
            require_spark(remote=remote is not None)
        except SparkUnavailable as missing:
            if publish:
                tell_unavailable(
                    session.server, name or (Path(pipeline).stem if pipeline.endswith(".py") else pipeline), str(missing)
                )
            raise
        try:
            options = RunOptions(
                target=pipeline,
                data=data,
                server=session.server,
                name=name,
                tables=tables,
                master=master or LOCAL,
                remote=remote,
                settings=pairs(settings, "--set"),
                spark_settings=pairs(conf, "--conf"),
                available_now=available_now,
                for_s=for_s,
                feed=feed,
                rate=rate,
                publish=publish,
            )
            made = Run(options, view(session))
        except BadSetting as error:
            raise UsageError(str(error)) from None
        made.run()
        if made.signal_number is not None:
            raise Stopped(made.signal_number)


def status(
    session: Session,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", show_default=False)] = None,
    data: DataOption = DATA,
) -> None:
    """Show which pipelines run, and how far they and the last runs of the others have come."""
    with _explained():
        from headrace.spark.runner.home import Home, homes

        found = [_ran(Home(data, name), data)[1] for name in names] if names else [_ran(home, data)[1] for home in homes(data)]
    if session.json:
        session.emit({"pipelines": [asdict(record) for record in found]})
        return
    if not found:
        session.note(f"No pipeline has run with the data folder {data}. 'headrace pipeline list' shows the gallery.")
        return
    for number, record in enumerate(found):
        if number:
            session.say("")
        _describe(session, record)


def stop(
    session: Session,
    name: Name,
    data: DataOption = DATA,
    grace_s: Annotated[
        float, typer.Option("--grace", metavar="SECONDS", min=0, help="Kill it when it has not ended after this long.")
    ] = GRACE_S,
) -> None:
    """End a running pipeline; its next run goes on where it stopped."""
    with _explained():
        from headrace.spark.runner.home import Home

        home, record = _ran(Home(data, name), data)
        if not home.running:
            raise CommandError(f"{name} is not running: its last run {_ended(record)}")
        if record.host != socket.gethostname():
            raise CommandError(f"{name} runs on {record.host}, as process {record.pid}: stop it there")
        os.kill(record.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while home.running and time.monotonic() < deadline:
            time.sleep(0.05)
        killed = home.running
        if killed:
            os.kill(record.pid, signal.SIGKILL)
            while home.running:
                time.sleep(0.05)
    if session.json:
        session.emit({"pipeline": name, "stopped": True, "killed": killed})
    else:
        session.say(f"{name}: {'killed, for it did not end in time' if killed else 'stopped'}")


def reset(session: Session, name: Name, data: DataOption = DATA, yes: Yes = False) -> None:
    """Forget how far a pipeline came: deletes its checkpoint, its state and its own tables. The next run begins anew."""
    with _explained():
        from headrace.spark.runner.home import Home

        home, record = _ran(Home(data, name), data)
        if not home.running:
            confirm(session, f"Delete checkpoint, state and tables of {name} in {home.folder}?", yes=yes)
        with home.held():
            home.delete()
    left = None if record.tables == home.tables else record.tables
    if session.json:
        session.emit({"pipeline": name, "reset": True, "tables_left": left})
        return
    session.say(f"{name}: begins anew with its next run")
    if left is not None:
        session.note(f"what it wrote to {left} is still there")


def feed(
    session: Session,
    domain: Annotated[
        str, typer.Argument(metavar="DOMAIN", help="A folder of the gallery: banking, shop.", show_default=False)
    ],
    rate: RateOption = 20.0,
    count: Annotated[int | None, typer.Option("--count", "-n", min=1, help="End after so many.", show_default=False)] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The same seed and start make the same events.", show_default="the time")
    ] = None,
    start: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="When the first of them happens.", show_default="now")
    ] = None,
) -> None:
    """Write realistic events of a business to its topics."""
    with _explained():
        from headrace.spark.runner.feeding import Feed, happenings, tables

        moment = None if start is None else datetime.fromtimestamp(arguments.moment(start, "--start") / 1000, UTC)
        with session.cluster() as cluster:
            made = Feed(cluster, happenings(domain, seed, moment), rate=rate, count=count, tables=tables(domain))
            try:
                made.run(lambda: False)
            finally:
                if session.json:
                    session.emit({"domain": domain, "sent": made.sent})
                else:
                    session.say(f"{domain}: {made.sent} events")


def _ran(home: Home, data: Path) -> tuple[Home, RunRecord]:
    from difflib import get_close_matches

    from headrace.spark.runner.home import homes

    record = home.record()
    if record is None:
        close = get_close_matches(home.name, [one.name for one in homes(data)], 1)
        hint = f"did you mean '{close[0]}'?" if close else "'headrace pipeline status' shows those that have"
        raise CommandError(f"'{home.name}' has not run with the data folder {data}; {hint}")
    return home, record


def _ended(record: RunRecord) -> str:
    return f"{record.state} at {record.ended}" if record.ended else "was killed"


def _describe(session: Session, record: RunRecord) -> None:
    from headrace.cli.pipeline_view import COLUMNS, cells

    session.say(f"pipeline   {record.pipeline}")
    session.say(f"state      {record.state}" + (f": {record.error}" if record.error else ""))
    who = f"process {record.pid} on {record.host}" if record.ended is None else f"ended {record.ended}"
    session.say(f"run        started {record.started}, {who}, on {record.remote or record.master}")
    session.say(f"server     {record.server}")
    session.say(f"tables     {record.tables}")
    session.say(f"log        {record.log}")
    if record.settings:
        session.say("settings   " + ", ".join(f"{name}={value}" for name, value in record.settings.items()))
    if record.queries:
        session.say("")
        session.table(COLUMNS, [cells(_as_it_is(one, record)) for one in record.queries])


def _as_it_is(query: dict[str, Any], record: RunRecord) -> dict[str, Any]:
    """A run that was killed did not come to say that its queries have ended."""
    return {**query, "state": record.state} if record.state == "killed" else query


@contextmanager
def _explained() -> Iterator[None]:
    """The runner's errors as the command line's."""
    from headrace.spark.java import SparkUnavailable
    from headrace.spark.runner.errors import RunnerError

    try:
        yield
    except (SparkUnavailable, RunnerError) as error:
        raise CommandError(str(error)) from None


_LOCAL: dict[str, Callable[..., None]] = {"list": list_, "status": status, "stop": stop, "reset": reset}
_SPEAKING: dict[str, Callable[..., None]] = {"run": run, "feed": feed}
for _name, _function in (_LOCAL | _SPEAKING).items():
    add_command(app, _name, _function, speaks_kafka=_name in _SPEAKING)
