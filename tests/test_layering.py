"""Imports point one way: front ends → broker → log → disk. What stands beside them may use only what is listed here."""

import ast
from pathlib import Path

import pytest

import headrace

ROOT = Path(headrace.__file__).parent
SHARED = {"record", "clock", "dataclass", "event_loop", "short_turns", "sockets", "times", "_speed", "__init__"}
MAY_IMPORT = {
    "clock": set(),
    "dataclass": set(),
    "event_loop": set(),
    "short_turns": set(),
    "sockets": set(),
    "times": set(),
    "loop_watch": set(),
    "logs": set(),
    "record": {"_speed", "_amqp"},
    "disk": {"_direct"},
    "log": {"disk", "_compact"},
    "expressions": set(),
    "broker": {"expressions", "log"},
    "kafka": {"broker", "log"},
    "amqp": {"broker", "log"},
    "web": set(),
    "http": {"broker", "log", "logs", "web", "zeromq"},
    "kinesis": {"broker", "log", "web", "_kinesis"},
    "webhooks": {"broker", "log"},
    "otlp": {"broker", "webhooks"},
    "zeromq": {"broker", "log", "_zeromq"},
    "multicast": {"broker", "log", "_multicast"},
    "client": {"kafka", "zeromq", "multicast"},
    "console": {"client", "web"},
    "spark": {"client", "kafka", "_columns"},
    "cli": {"amqp", "client", "console", "kafka", "logs", "server", "log", "spark"},
    "testing": {"disk"},
    "server": {
        "amqp",
        "broker",
        "disk",
        "expressions",
        "http",
        "kafka",
        "kinesis",
        "log",
        "loop_watch",
        "multicast",
        "otlp",
        "webhooks",
        "zeromq",
    },
    "__main__": {"cli"},
    "__init__": {"client"},
}
# The codecs and the messages are also what a client speaks with: they know nothing of the broker.
PROTOCOL_ONLY = {
    "kafka/codec": {"kafka/codec"},
    "kafka/messages": {"kafka/codec", "kafka/messages"},
    "amqp/arguments.py": set(),
    "amqp/methods.py": {"amqp/arguments"},
    "amqp/frames.py": {"amqp/arguments", "amqp/methods"},
    "zeromq/wire": {"zeromq/wire"},
    "multicast/feed": {"multicast/feed", "_multicast"},
}


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "headrace":
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name.split(".")[0] == "headrace"}
    return found


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


FILES = sorted(ROOT.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_imports_only_from_rooms_below_its_own(path: Path) -> None:
    relative = path.relative_to(ROOT)
    here = relative.parts[0].removesuffix(".py")
    allowed = MAY_IMPORT[here] | SHARED | {here}
    wrong = {module for module in imports_of(path) if room(module) not in allowed and module != "headrace.__version__"}
    assert not wrong, f"{relative} may import {sorted(allowed)}"


@pytest.mark.parametrize("inner", PROTOCOL_ONLY)
def test_codec_and_messages_stand_on_their_own(inner: str) -> None:
    prefixes = tuple(name.replace("/", ".") for name in PROTOCOL_ONLY[inner])
    for path in [ROOT / inner] if inner.endswith(".py") else (ROOT / inner).rglob("*.py"):
        for module in imports_of(path):
            inside = module.removeprefix("headrace.")
            assert inside.startswith(prefixes) or room(module) in SHARED, f"{path.name} imports {module}"


def test_the_client_and_the_command_line_use_the_protocol_and_never_the_inside() -> None:
    spoken = tuple("headrace." + inner.removesuffix(".py").replace("/", ".") for inner in PROTOCOL_ONLY)
    for path in [path for user in ("client", "cli", "spark", "http") for path in (ROOT / user).rglob("*.py")]:
        if path.name == "serve.py":
            continue
        for module in imports_of(path):
            if room(module) in ("amqp", "kafka", "zeromq", "multicast"):
                assert module.startswith(spoken), f"{path.name} imports {module}"
