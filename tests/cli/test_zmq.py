from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import zmq.auth


def headrace(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_keygen_makes_the_files_of_pyzmq_and_never_overwrites(tmp_path: Path) -> None:
    done = headrace("--json", "zmq", "keygen", "me", "--folder", tmp_path)
    assert done.returncode == 0, done.stderr
    public, secret = zmq.auth.load_certificate(tmp_path / "me.key_secret")
    assert json.loads(done.stdout) == {
        "public_key": public.decode(),
        "files": [str(tmp_path / "me.key"), str(tmp_path / "me.key_secret")],
    }
    assert secret is not None
    assert secret.decode() not in done.stdout
    again = headrace("zmq", "keygen", "me", "--folder", tmp_path)
    assert again.returncode == 1
    assert "is there already" in again.stderr
