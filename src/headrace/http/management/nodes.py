"""/api/nodes: the one node there is, its memory, disk and descriptors. /api/cluster-name."""

from __future__ import annotations

import os
import platform
import resource
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import __version__
from headrace.broker.clients import RABBITMQ_VERSION, node_name
from headrace.broker.exchanges.kinds import ALL_KINDS
from headrace.broker.vhosts.hosts import CLUSTER_NAME
from headrace.http.management.call import ADMINISTRATOR, MONITORING, NO_CONTENT, Answer, Call, Resource
from headrace.http.management.errors import bad_request, missing
from headrace.http.management.listing import columns, listed, only
from headrace.log.errors import DiskFull

if TYPE_CHECKING:
    from headrace.broker import Broker

MAX_THREADS = 1_048_576  # what RabbitMQ has for its processes; threads here are few, and nothing counts them
_PARTS_OF_MEMORY = (
    *("connection_readers", "connection_writers", "connection_channels", "connection_other", "queue_procs"),
    *("quorum_queue_procs", "quorum_queue_dlx_procs", "stream_queue_procs", "stream_queue_replica_reader_procs"),
    *("stream_queue_coordinator_procs", "plugins", "metadata_store", "other_proc", "metrics", "mgmt_db", "mnesia"),
    *(
        "quorum_ets",
        "metadata_store_ets",
        "other_ets",
        "binary",
        "msg_index",
        "code",
        "atom",
        "other_system",
        "allocated_unused",
        "reserved_unallocated",
    ),
)
EXCHANGE_TYPES = [{"name": kind, "description": "", "enabled": True} for kind in ALL_KINDS]
MECHANISMS = [{"name": name, "description": "", "enabled": True} for name in ("AMQPLAIN", "ANONYMOUS", "PLAIN")]


def cluster_tags(broker: Broker) -> object:
    return broker.vhosts.parameters.get(("", None, "cluster_tags")) or {}


def memory_used() -> int:
    """Resident, of this process."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):  # another system than Linux: the most it ever was
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _descriptors() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return 0


def disk_alarm(broker: Broker) -> bool:
    return isinstance(broker.log.refusal, DiskFull)


def memory_alarm(broker: Broker) -> bool:
    return "memory" in broker.clients.alarm


def contexts(broker: Broker) -> list[dict[str, Any]]:
    host, port = broker.clients.listeners.get("http", ("", 0))
    return [{"description": "RabbitMQ Management", "path": "/", "ip": host, "port": str(port), "node": node_name()}]


def _row(call: Call) -> dict[str, Any]:
    broker = call.broker
    storage = broker.log.storage()
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    sockets = 0
    for traffic in broker.traffic.values():
        if traffic.look is not None:
            traffic.look()
        sockets += traffic.connections
    used = {
        "mem_used": memory_used(),
        "fd_used": _descriptors(),
        "sockets_used": sockets,
        "proc_used": threading.active_count(),
        "disk_free": storage.usable_bytes,
    }
    return {
        "applications": [
            {"name": "headrace", "description": "Headrace", "version": __version__},
            {"name": "rabbit", "description": "RabbitMQ's protocol, spoken by Headrace", "version": RABBITMQ_VERSION},
        ],
        "auth_mechanisms": MECHANISMS,
        "being_drained": False,
        "cluster_links": [],
        "config_files": [],
        "contexts": contexts(broker),
        "db_dir": str(broker.settings.facts.get("log.dirs", "")),
        "disk_free_alarm": disk_alarm(broker),
        "disk_free_limit": 0,
        "enabled_plugins": ["rabbitmq_management"],
        "exchange_types": EXCHANGE_TYPES,
        "fd_total": soft if soft != resource.RLIM_INFINITY else 0,
        "log_files": ["<stderr>"],
        "mem_alarm": memory_alarm(broker),
        "mem_calculation_strategy": "rss",
        "mem_limit": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "name": node_name(),
        "net_ticktime": 60,
        "os_pid": str(os.getpid()),
        "partitions": [],
        "proc_total": MAX_THREADS,
        "processors": os.cpu_count() or 1,
        "rates_mode": "basic",
        "run_queue": 0,
        "running": True,
        "sockets_total": broker.settings.get_int("max.connections"),
        "type": "disc",
        "uptime": broker.clock.now_ms() - broker.clients.started_ms,
        "python_version": platform.python_version(),
        **call.rates.counted("node", used),
    }


async def _list(call: Call) -> object:
    return await listed(call.query, [node_name()], lambda _: _row(call), lambda name: name)


def _check_name(call: Call) -> None:
    if call["name"] != node_name():
        raise missing()


async def _get(call: Call) -> object:
    _check_name(call)
    return only(_row(call), columns(call.query))


async def _memory(call: Call) -> object:
    _check_name(call)
    used = memory_used()
    parts = {**dict.fromkeys(_PARTS_OF_MEMORY, 0), "other_proc": used}
    return {"memory": {**parts, "strategy": "rss", "total": {"rss": used, "allocated": used, "erlang": used}}}


async def _relative_memory(call: Call) -> object:
    """In percent. One process uses all of it."""
    _check_name(call)
    return {"memory": {"total": 100, **dict.fromkeys(_PARTS_OF_MEMORY, 0), "other_proc": 100}}


async def _auth_attempts(call: Call) -> object:
    _check_name(call)
    attempts = call.broker.vhosts.users.attempts
    return [
        {
            "protocol": protocol,
            "auth_attempts": attempts[protocol, True] + attempts[protocol, False],
            "auth_attempts_failed": attempts[protocol, False],
            "auth_attempts_succeeded": attempts[protocol, True],
        }
        for protocol in ("http", "amqp091")
    ]


async def _forget_auth_attempts(call: Call) -> Answer:
    _check_name(call)
    call.broker.vhosts.users.attempts.clear()
    return NO_CONTENT


async def _get_cluster_name(call: Call) -> object:
    return {"name": call.broker.vhosts.cluster_name}


async def _put_cluster_name(call: Call) -> Answer:
    body = call.body()
    body.require("name")
    if not body.text("name"):
        raise bad_request("a cluster has a name")
    call.broker.vhosts.put_parameter("", None, CLUSTER_NAME, body.text("name"))
    await call.durable()
    return NO_CONTENT


RESOURCES = [
    Resource("nodes", {"GET": _list}, MONITORING),
    Resource("nodes/{name}", {"GET": _get}, MONITORING),
    Resource("nodes/{name}/memory", {"GET": _memory}, MONITORING),
    Resource("nodes/{name}/memory/relative", {"GET": _relative_memory}, MONITORING),
    Resource("auth/attempts/{name}", {"GET": _auth_attempts, "DELETE": _forget_auth_attempts}, MONITORING, ADMINISTRATOR),
    Resource("cluster-name", {"GET": _get_cluster_name, "PUT": _put_cluster_name}, write_tag=ADMINISTRATOR),
]
