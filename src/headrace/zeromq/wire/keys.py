"""Keys of CURVE, and the files that hold them: the form of CZMQ and of pyzmq's `zmq.auth`, so theirs can be used as well.

    NAME.key          the public key, for those who connect or who let this one in
    NAME.key_secret   both keys; readable by its owner alone

A key is 32 bytes, written as 40 characters of Z85.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

import zmq

MAX_FILE_BYTES = 64 * 1024

_LINE = re.compile(r'\s*(public|secret)-key\s*=\s*"([^"]*)"\s*')
_Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


class BadKey(ValueError):
    """A key or a key file that is none; the text says why, and never holds the key."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    public: str
    secret: str

    def __repr__(self) -> str:
        return f"KeyPair(public={self.public!r})"  # a secret does not belong into a log

    @classmethod
    def new(cls) -> KeyPair:
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> KeyPair:
        """Of a file NAME.key_secret. Raises BadKey, OSError."""
        found = _keys_in(path)
        if "public" not in found or "secret" not in found:
            raise BadKey(f"{path} holds no pair of keys")
        return cls(found["public"], found["secret"])

    def write(self, folder: str | os.PathLike[str], name: str) -> tuple[Path, Path]:
        """Writes both files; returns their paths. Raises OSError: FileExistsError for one that is there."""
        public, secret = Path(folder) / f"{name}.key", Path(folder) / f"{name}.key_secret"
        for path in (public, secret):
            if path.exists():
                raise FileExistsError(f"{path} is there already")
        _write(secret, 0o600, f'metadata\ncurve\n    public-key = "{self.public}"\n    secret-key = "{self.secret}"\n')
        _write(public, 0o644, f'metadata\ncurve\n    public-key = "{self.public}"\n')
        return public, secret


def public_key(given: str | os.PathLike[str]) -> str:
    """The key itself, or that of a file. Raises BadKey, OSError."""
    if isinstance(given, str) and _Z85.fullmatch(given):
        return given
    found = _keys_in(given)
    if "public" not in found:
        raise BadKey(f"{given} holds no public key")
    return found["public"]


def _keys_in(path: str | os.PathLike[str]) -> dict[str, str]:
    if len(os.fspath(path)) > 4096:
        raise BadKey("a key has 40 characters of Z85")
    with open(path, "rb") as file:
        lines = file.read(MAX_FILE_BYTES).decode("utf-8", "replace").splitlines()
    found = {match[1]: match[2] for line in lines if (match := _LINE.fullmatch(line))}
    if not all(_Z85.fullmatch(key) for key in found.values()):
        raise BadKey(f"{path} holds something that is no key of CURVE: 40 characters of Z85")
    return found


def _write(path: Path, mode: int, content: str) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="ascii") as file:
        file.write(content)
