"""Sockets that listen."""

from __future__ import annotations

import socket
from collections.abc import Mapping

Option = tuple[int, int]  # level and name, as setsockopt takes them


def bound_socket(host: str, port: int, options: Mapping[Option, int] | None = None) -> socket.socket:
    """A TCP socket at this address, not listening yet; connections inherit its options. Port 0 takes a free one."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        for (level, name), value in (options or {}).items():
            made.setsockopt(level, name, value)
        made.bind((host, port))
    except BaseException:
        made.close()
        raise
    return made
