"""The stores that every test of tables runs on, among them a real PostgreSQL from Debian's packages."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("pyarrow")

STORES = ["sqlite", "postgresql", "delta", "parquet"]


@pytest.fixture(params=STORES)
def into(request: pytest.FixtureRequest, store_url: Callable[[str], str]) -> str:
    """The URL of an empty store."""
    return store_url(request.param)


@pytest.fixture
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    def url(kind: str) -> str:
        if kind == "postgresql":
            return str(request.getfixturevalue("postgresql"))
        if kind == "delta":
            pytest.importorskip("deltalake")
        return f"{kind}:{tmp_path / ('tables.db' if kind == 'sqlite' else kind)}"

    return url


_schemas = itertools.count()


@pytest.fixture
def postgresql(postgresql_server: str) -> str:
    """A schema of the test's own in the session's database."""
    psycopg = pytest.importorskip("psycopg")
    schema = f"test_{next(_schemas)}"
    with psycopg.connect(postgresql_server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
    return f"{postgresql_server}&options={quote(f'-csearch_path={schema}')}"


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """A PostgreSQL server in a temporary folder, on a Unix socket only. Its programs refuse to run as root, so they run as
    another user there."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3].split(".")[0]))
    on_path = shutil.which("pg_ctl")
    if not found and on_path is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    programs = found[-1].parent if found else Path(str(on_path)).parent
    folder = Path(tempfile.mkdtemp(prefix="headrace-pg-", dir="/tmp"))
    before: list[str] = []
    if os.getuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        owner = "postgres" if "postgres" in names else "nobody"
        shutil.chown(folder, owner)
        before = ["runuser", "-u", owner, "--"]

    def run(*command: object) -> None:
        ended = subprocess.run([*before, *map(str, command)], cwd=folder, capture_output=True, text=True, timeout=60)
        log = (folder / "log").read_text() if (folder / "log").exists() else ""
        assert ended.returncode == 0, f"{command[0]}: {ended.stdout}{ended.stderr}{log}"

    data = folder / "data"
    try:
        run(programs / "initdb", "-D", data, "-U", "headrace", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c max_connections=20"
        # Its output goes to a file: a server that keeps our pipes would have us wait for its end.
        run(programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://headrace@/postgres?host={quote(str(folder), safe='')}"
        finally:
            run(programs / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
