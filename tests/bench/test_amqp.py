"""The AMQP benchmarks: how they are put together, and that the load generator notices what a server does wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.amqp_load import Shape
from bench.model import Case, Effort, Measured, Mode, Outcome, Row
from bench.peers import PeerError, Server, free_port, start_headrace
from bench.rig import LoadError, Rig

from bench import cases, native, perf_test, rabbitmq, report, suite

FACTS: dict[str, object] = {
    **{"processor": "P", "cores": 2, "memory_gb": 8, "system": "S", "filesystem": "ext4", "fdatasync_ms": 0.2},
    **{"python": "3", "java": "17", "compiled": True, "rabbitmq": "3.10.8"},
}


def nothing(rig: Rig) -> Measured:
    return {"rate": 1.0}


CASE = Case(
    name="case",
    title="Title",
    about="About.",
    protocol="amqp",
    measure=nothing,
    ours=Mode.HEADRACE,
    theirs=Mode.RABBITMQ,
    also=Mode.RABBITMQ_QUORUM,
    most_rounds=1,
    rows=(Row("rate", "rate", "msg/s", aim_ratio=3.0),),
)


def test_without_a_rabbitmq_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RABBITMQ_HOME", raising=False)
    monkeypatch.setattr(rabbitmq, "PACKAGE", tmp_path)
    with pytest.raises(PeerError, match="apt install rabbitmq-server"):
        rabbitmq.start_rabbitmq(tmp_path / "data")
    assert rabbitmq.version() == "none"


def test_a_named_rabbitmq_must_be_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RABBITMQ_HOME", str(tmp_path))
    with pytest.raises(PeerError, match="has no sbin/rabbitmq-server"):
        rabbitmq.rabbitmq_home()


def test_of_several_installed_the_newest_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RABBITMQ_HOME", raising=False)
    monkeypatch.setattr(rabbitmq, "PACKAGE", tmp_path)
    for version in ("3.9.13", "3.10.8"):
        program = tmp_path / f"rabbitmq_server-{version}" / "sbin" / "rabbitmq-server"
        program.parent.mkdir(parents=True)
        program.touch()
    assert rabbitmq.version() == "3.10.8"


def test_a_node_has_nothing_of_an_installed_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RABBITMQ_MNESIA_DIR", "/var/lib/rabbitmq/mnesia/rabbit")
    monkeypatch.setenv("ERL_FLAGS", "+S 1")
    environment = rabbitmq._environment(tmp_path, 4369)
    assert "RABBITMQ_MNESIA_DIR" not in environment
    assert "ERL_FLAGS" not in environment
    assert environment["HOME"] == str(tmp_path)


def test_the_options_of_perf_test_say_the_same_as_those_of_the_go_client() -> None:
    durable = Shape(size=1000, producers=4, consumers=4)
    said = " ".join(perf_test.arguments(durable, "q", "classic"))
    assert "--size 1000 --producers 4 --consumers 4" in said
    assert "--flag persistent --confirm 1000 --qos 1000" in said
    words = [str(word) for word in durable.arguments()]
    assert words[words.index("-confirm") + 1] == words[words.index("-prefetch") + 1] == "1000"
    transient = Shape(transient=True)
    assert "--autoack" in perf_test.arguments(transient, "q", "classic")
    assert "--confirm" not in perf_test.arguments(transient, "q", "classic")
    assert "-auto-ack" in transient.arguments()
    many = perf_test.arguments(Shape(queues=50), "q", "quorum")
    assert many[many.index("--queue-pattern") + 1] == "q-%d"
    assert many[-1] == "--quorum-queue"


def test_the_lines_of_perf_test_are_read() -> None:
    said = (
        "id: t-1, time 1.000 s, sent: 812 msg/s\n"
        "id: t-1, time 2.000 s, sent: 15,021 msg/s, returned: 0 msg/s, confirmed: 15000 msg/s, nacked: 0 msg/s, "
        "received: 14,988 msg/s, min/median/75th/95th/99th consumer latency: 1/2/3/4/5 µs\n"
        "id: t-1, sending rate avg: 15000 msg/s\nid: t-1, receiving rate avg: 14900 msg/s\n"
    )
    assert perf_test.rates(said) == [(2.0, 15021.0, 14988.0)]


def test_what_perf_test_says_counts_by_the_time_it_covers() -> None:
    lines = [(1.0, 1.0, 1.0), (2.0, 10.0, 10.0), (3.0, 200.0, 100.0), (3.0, 9e18, 0.0), (6.0, 400.0, 300.0), (9.0, 0.0, 900.0)]
    tested = perf_test.steady(lines, cpu=[0.0, 1.0, 1.1, 1.1, 1.2, 9.0], warm=2, seconds=6)
    assert tested.sent == pytest.approx((200 + 3 * 400) / 4)
    assert tested.received == pytest.approx((100 + 3 * 300) / 4)
    assert tested.server_cpu_us == pytest.approx(0.2e6 / 1000)
    starved = perf_test.steady([(1.0, 5.0, 5.0), (14.0, 7.0, 6.0)], cpu=[0.0, 1.3], warm=2, seconds=8)
    assert (starved.sent, starved.received) == (7.0, 6.0)
    with pytest.raises(LoadError, match="said too little"):
        perf_test.steady(lines[:1], cpu=[0.0], warm=2, seconds=6)


def test_a_peer_beside_is_named_in_the_table() -> None:
    results = suite.Results(FACTS, 3, False, {"case": Outcome()})
    for mode, value in ((Mode.HEADRACE, 60_000.0), (Mode.RABBITMQ, 15_000.0), (Mode.RABBITMQ_QUORUM, 20_000.0)):
        results.outcomes["case"].add(mode, {"rate": value})
    table = report.markdown(results, [CASE])
    assert "|  | RabbitMQ | Headrace, fsync | (RabbitMQ, quorum queues) | ratio | aim |  |" in table
    assert "| rate | 15,000 msg/s | 60,000 msg/s | 20,000 msg/s | 4.00 | ≥ 3 | yes |" in table
    assert "RabbitMQ 3.10.8." in table


def test_peers_can_be_left_out_and_a_long_case_has_few_rounds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ran: list[Mode] = []

    def run_once(case: Case, mode: Mode, effort: Effort, folder: Path) -> Measured:
        ran.append(mode)
        return {"rate": 1.0}

    monkeypatch.setattr(suite, "run_once", run_once)
    assert suite.run([CASE], suite.Results(FACTS, 3, False), Effort(), tmp_path) == 0
    assert ran == [Mode.HEADRACE, Mode.RABBITMQ, Mode.RABBITMQ_QUORUM]
    ran.clear()
    suite.run([CASE], suite.Results(FACTS, 3, False), Effort(), tmp_path, with_rabbitmq=False)
    assert ran == [Mode.HEADRACE]


def test_every_case_against_rabbitmq_speaks_amqp() -> None:
    for case in cases.ALL:
        assert (case.protocol == "amqp") == case.name.startswith("amqp-"), case.name
        if case.theirs is not None:
            assert case.theirs.is_rabbitmq == (case.protocol == "amqp"), case.name


def test_a_free_port_is_none_that_a_connecting_client_could_get() -> None:
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    assert not any(first <= free_port() <= last for _ in range(20))


# --- the load generator itself ---


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if shutil.which("go") is None:
        pytest.skip("needs Go (go)")
    folder = tmp_path_factory.mktemp("amqp") / "data"
    with start_headrace(folder, arguments=["--amqp", "127.0.0.1:0"]) as running:
        yield running


def amqpload(server: Server, verb: str, *words: object) -> subprocess.CompletedProcess[str]:
    try:
        program = native.amqpload()
    except PeerError as error:
        pytest.skip(str(error))
    url = f"amqp://guest:guest@{server.host}:{server.amqp_port}"
    command = [str(program), verb, "-url", url, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def said(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.interop
@pytest.mark.parametrize(
    "words",
    [
        ["-confirm", 100, "-prefetch", 50],
        ["-transient", "-auto-ack"],
        ["-confirm", 100, "-producers", 3, "-consumers", 2],
        ["-confirm", 100, "-producers", 2, "-consumers", 2, "-queues", 5],
        ["-confirm", 100, "-queues", 2, "-bindings", 20],
    ],
    ids=["confirms", "transient", "shared-queue", "several-queues", "topic-exchange"],
)
def test_all_that_was_published_comes_once(server: Server, words: list[object], request: pytest.FixtureRequest) -> None:
    brought = said(amqpload(server, "load", "-queue", request.node.callspec.id, "-count", 2000, *words))
    assert brought["published"] == brought["received"] == 2000


@pytest.mark.interop
def test_messages_that_it_did_not_send_are_noticed(server: Server) -> None:
    said(amqpload(server, "load", "-queue", "old", "-consumers", 0, "-count", 10, "-confirm", 10))
    assert said(amqpload(server, "inspect", "-queue", "old", "-expect", 10))["messages"] == 10
    done = amqpload(server, "load", "-queue", "old", "-count", 10, "-confirm", 10)
    assert done.returncode == 1
    assert "message 0 came where 10 was due" in done.stderr
    longer = amqpload(server, "load", "-queue", "old", "-count", 10, "-confirm", 10, "-size", 200)
    assert longer.returncode == 1
    assert "a message of 100 bytes came where 200 were sent" in longer.stderr


@pytest.mark.interop
def test_a_steady_rate_gives_latencies(server: Server) -> None:
    done = amqpload(server, "load", "-queue", "steady", "-rate", 500, "-seconds", 1, "-confirm", 100)
    brought = json.loads(done.stdout)
    assert brought["delivery"]["p50_us"] <= brought["delivery"]["p99_us"]
    assert brought["confirm"]["p50_us"] <= brought["confirm"]["p99_us"]


@pytest.mark.interop
def test_queues_are_declared_and_connections_are_kept(server: Server) -> None:
    assert said(amqpload(server, "declare", "-queue", "made", "-queues", 20))["queues"] == 20
    assert said(amqpload(server, "inspect", "-queue", "made-19", "-expect", 0))["messages"] == 0
    assert said(amqpload(server, "hold", "-connections", 5))["kept"] == 5
