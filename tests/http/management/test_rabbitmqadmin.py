"""RabbitMQ's own command line, `rabbitmqadmin`, does with Headrace what it does with RabbitMQ."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.http.management.asking import Api

from headrace.testing import HeadraceServer, wait_until

ADMIN = shutil.which("rabbitmqadmin")

pytestmark = [pytest.mark.interop, pytest.mark.skipif(ADMIN is None, reason="rabbitmqadmin is not installed")]


@pytest.fixture
def admin(server: HeadraceServer) -> Any:
    address = urlsplit(server.http)

    def run(*arguments: str, check: bool = True) -> str:
        command = [
            sys.executable,
            str(ADMIN),
            "-H",
            str(address.hostname),
            "-P",
            str(address.port),
            "-u",
            "guest",
            "-p",
            "guest",
        ]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)
        assert not check or done.returncode == 0, done
        return done.stdout + done.stderr

    return run


def table(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text))


def test_declare_publish_get_and_delete(admin: Any, name: str) -> None:
    assert "exchange declared" in admin("declare", "exchange", f"name={name}", "type=topic")
    arguments = '{"x-max-length": 10, "x-queue-type": "quorum"}'
    assert "queue declared" in admin("declare", "queue", f"name={name}", "durable=true", f"arguments={arguments}")
    binding = (f"source={name}", f"destination={name}", "routing_key=a.#")
    assert "binding declared" in admin("declare", "binding", *binding, "destination_type=queue")
    assert "Message published" in admin("publish", f"exchange={name}", "routing_key=a.b", "payload=hello")
    assert "NOT routed" in admin("publish", f"exchange={name}", "routing_key=other", "payload=hello")
    (message,) = table(admin("-f", "raw_json", "get", f"queue={name}", "ackmode=ack_requeue_false"))
    assert (message["payload"], message["routing_key"], message["exchange"]) == ("hello", "a.b", name)
    assert "queue purged" in admin("purge", "queue", f"name={name}")
    assert "binding deleted" in admin("delete", "binding", *binding[:2], "destination_type=queue", "properties_key=a.%23")
    assert "queue deleted" in admin("delete", "queue", f"name={name}")
    assert "exchange deleted" in admin("delete", "exchange", f"name={name}")
    assert "*** Not found" in admin("delete", "queue", f"name={name}", check=False)


def test_lists_and_shows(admin: Any, client: Any, queue: str) -> None:
    client.channel().basic_consume(queue, lambda *message: None)
    rows = table(admin("-f", "raw_json", "list", "queues", "name", "messages", "consumers"))
    assert {"name": queue, "messages": 0, "consumers": 1} in rows
    for what in ("exchanges", "bindings", "vhosts", "users", "permissions", "connections", "channels", "consumers", "nodes"):
        assert table(admin("-f", "raw_json", "list", what)), what
    for what in ("policies", "operator_policies", "parameters"):
        admin("-f", "raw_json", "list", what)
    assert "rabbitmq_version" in admin("-f", "long", "show", "overview")
    assert queue in admin("-f", "pretty_json", "list", "queues")
    assert queue in admin("-f", "bash", "list", "queues")


def test_vhosts_users_permissions_and_policies(admin: Any, name: str) -> None:
    assert "vhost declared" in admin("declare", "vhost", f"name={name}")
    assert "user declared" in admin("declare", "user", f"name={name}", "password=secret", "tags=management")
    allow = ("configure=.*", "write=.*", "read=.*")
    assert "permission declared" in admin("declare", "permission", f"vhost={name}", f"user={name}", *allow)
    assert "policy declared" in admin(
        "-V", name, "declare", "policy", "name=p", "pattern=^q", 'definition={"max-length":5}', "apply-to=queues"
    )
    assert "queue declared" in admin("-V", name, "declare", "queue", "name=q")
    assert "policy deleted" in admin("-V", name, "delete", "policy", "name=p")
    assert "user deleted" in admin("delete", "user", f"name={name}")
    assert "vhost deleted" in admin("delete", "vhost", f"name={name}")


def test_definitions_are_exported_and_imported(admin: Any, api: Api, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    admin("export", str(file))
    assert queue in [entry["name"] for entry in json.loads(file.read_text())["queues"]]
    assert api.delete(f"/queues/%2F/{queue}") == 204
    assert "Uploaded definitions" in admin("import", str(file))
    assert api.get(f"/queues/%2F/{queue}")["durable"] is True


def test_a_connection_is_closed(admin: Any, client: Any, api: Api) -> None:
    names = [row["name"] for row in api.get("/connections")]
    assert names
    for each in names:
        admin("close", "connection", f"name={each}")
    wait_until(lambda: not set(names) & {row["name"] for row in api.get("/connections")}, what="connections to be closed")
