"""The load generators written in C and Go, compiled when they are first needed and whenever their source changes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from bench.peers import HERE, PeerError

BIN = HERE / "bin"


def loadgen() -> Path:
    return _compiled("loadgen")


def httpload() -> Path:
    return _compiled("httpload")


def rdload() -> Path:
    library = librdkafka()
    return _compiled("rdload", str(library), f"-Wl,-rpath,{library.parent}", newer_than=library)


def amqpload() -> Path:
    """Written in Go, on RabbitMQ's client for it; Go fetches that client the first time."""
    folder, binary = HERE / "amqp", BIN / "amqpload"
    inputs = [*folder.glob("*.go"), folder / "go.mod"]
    if binary.exists() and all(binary.stat().st_mtime >= each.stat().st_mtime for each in inputs):
        return binary
    if shutil.which("go") is None:
        raise PeerError("Go 1.26 or newer is needed for the AMQP load generator")
    BIN.mkdir(exist_ok=True)
    partial = BIN / f".amqpload.{os.getpid()}"
    done = subprocess.run(["go", "build", "-o", str(partial), "."], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise PeerError(f"the AMQP load generator did not compile: {done.stderr.strip()[-500:]}")
    partial.rename(binary)
    return binary


def librdkafka() -> Path:
    """The library in the confluent-kafka wheel: newer than what distributions package, and there after `make setup`."""
    found = importlib.util.find_spec("confluent_kafka")
    if found is not None and found.origin is not None:
        beside = Path(found.origin).resolve().parent.parent / "confluent_kafka.libs"
        for library in sorted(beside.glob("librdkafka*.so*")):
            return library
    raise PeerError("the installed confluent-kafka carries no librdkafka: its cases need the Linux wheel")


def _compiled(name: str, *arguments: str, newer_than: Path | None = None) -> Path:
    source, binary = HERE / f"{name}.c", BIN / name
    inputs = [source] if newer_than is None else [source, newer_than]
    if binary.exists() and all(binary.stat().st_mtime >= each.stat().st_mtime for each in inputs):
        return binary
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise PeerError("a C compiler (cc) is needed for the load generators")
    BIN.mkdir(exist_ok=True)
    partial = BIN / f".{name}.{os.getpid()}"
    done = subprocess.run(
        [compiler, "-O2", "-Wall", "-o", str(partial), str(source), *arguments], capture_output=True, text=True
    )
    if done.returncode:
        raise PeerError(f"{source.name} did not compile: {done.stderr.strip()[-500:]}")
    partial.rename(binary)
    return binary
