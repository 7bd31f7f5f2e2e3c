"""RabbitMQ's six tutorials, as examples/amqp has them: each behaves as the tutorial says it does."""

from __future__ import annotations

import pytest

from headrace.testing import wait_until

pytestmark = pytest.mark.interop


@pytest.fixture
def fresh(channel, made):
    """Deletes a queue that an earlier run left, now and after the test."""

    def fresh(*names: str) -> None:
        made.queues.extend(names)
        for name in names:
            channel.queue_delete(name)

    return fresh


def received(program):
    return [line for line in program.lines if line.startswith("received")]


def test_hello_world(run, fresh):
    fresh("hello")
    assert run("hello/send.py").finish() == ["sent 'Hello World!'"]  # before anyone receives: the queue keeps it
    receiver = run("hello/receive.py")
    receiver.wait_for("received 'Hello World!'")
    run("hello/send.py", "again").finish()
    receiver.wait_for("received 'again'")
    receiver.interrupt()


def test_work_queues(run, fresh):
    fresh("task_queue")
    workers = [run("work_queues/worker.py") for _ in range(2)]
    for worker in workers:
        worker.wait_for("waiting")
    run("work_queues/new_task.py", "endless" + "." * 600).finish()
    wait_until(lambda: any("began 'endless" in worker.text for worker in workers), what="a worker that began")
    busy, free = sorted(workers, key=lambda worker: "endless" not in worker.text)
    for number in range(3):
        run("work_queues/new_task.py", f"task {number}.").finish()
    for number in range(3):
        free.wait_for(f"finished 'task {number}.'")  # all go to the free one
    busy.kill()
    free.wait_for("began 'endless")  # and so does what the dead one had not finished


def test_publish_and_subscribe(run):
    run("publish_subscribe/emit_log.py", "nobody hears this").finish()
    receivers = [run("publish_subscribe/receive_logs.py") for _ in range(2)]
    for receiver in receivers:
        receiver.wait_for("waiting")
    run("publish_subscribe/emit_log.py", "everyone hears this").finish()
    for receiver in receivers:
        receiver.wait_for("received")
        assert received(receiver) == ["received 'everyone hears this'"]
        receiver.interrupt()


def test_routing(run):
    errors, everything = run("routing/receive_logs.py", "error"), run("routing/receive_logs.py", "info", "warning", "error")
    for receiver in (errors, everything):
        receiver.wait_for("waiting")
    for severity in ("info", "warning", "error", "debug", "error"):
        run("routing/emit_log.py", severity, "it happened").finish()
    wait_until(lambda: len(received(everything)) == 4 and len(received(errors)) == 2, what="the lines")
    assert received(errors) == ["received error: 'it happened'"] * 2
    assert [line.split()[1] for line in received(everything)] == ["info:", "warning:", "error:", "error:"]


def test_topics(run):
    receivers = {
        pattern: run("topics/receive_logs.py", *pattern.split())
        for pattern in ("#", "kern.*", "*.critical", "kern.* *.critical")
    }
    for receiver in receivers.values():
        receiver.wait_for("waiting")
    for topic in ("kern.critical", "kern.info", "cron.critical", "cron.info", "end"):
        run("topics/emit_log.py", topic, "x").finish()
    receivers["#"].wait_for("received end")

    def topics(pattern):
        return [line.split()[1].rstrip(":") for line in received(receivers[pattern])]

    wait_until(lambda: len(topics("kern.* *.critical")) == 3 and len(topics("*.critical")) == 2, what="the lines")
    assert topics("#") == ["kern.critical", "kern.info", "cron.critical", "cron.info", "end"]
    assert topics("kern.*") == ["kern.critical", "kern.info"]
    assert topics("*.critical") == ["kern.critical", "cron.critical"]
    assert topics("kern.* *.critical") == ["kern.critical", "kern.info", "cron.critical"]  # no line twice


def test_rpc(run, fresh):
    fresh("rpc_queue")
    servers = [run("rpc/server.py") for _ in range(2)]
    for server in servers:
        server.wait_for("waiting")
    clients = [run("rpc/client.py", "30", "7", "0"), run("rpc/client.py", "10")]
    assert clients[0].finish() == ["fibonacci(30) = 832040", "fibonacci(7) = 13", "fibonacci(0) = 0"]
    assert clients[1].finish() == ["fibonacci(10) = 55"]
    assert sum(server.text.count("asked for") for server in servers) == 4
    for server in servers:
        server.interrupt()
