"""A small blocking client of what a server tells about itself: /v1/overview and its kin, and /metrics.

    with ServerClient("http://127.0.0.1:8080", user="guest", password="guest") as server:
        print(server.get("/overview")["version"])

It makes its requests as `client.management` does, and its errors are the same: a ManagementError whose text is one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from headrace.client.management.errors import LoginFailed, NotFound, NotManagement, Refused
from headrace.client.management.transport import Transport

Series = tuple[str, dict[str, str], float]

_SERIES = re.compile(r"([a-z_]+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class ServerClient:
    def __init__(self, url: str, *, user: str = "guest", password: str = "guest", timeout_s: float = 30.0) -> None:
        self._transport = _Transport(url, user=user, password=password, timeout_s=timeout_s)
        self.address = self._transport.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._transport.close()

    def get(self, path: str, *, what: str = "") -> Any:
        """What is at `/v1` + path."""
        return self._transport.request("GET", path, what=what or f"/v1{path.partition('?')[0]}")

    def all(self, path: str, member: str, most: int) -> list[dict[str, Any]]:
        """A list that comes in parts, up to `most` of it and a part more. `path` has a query already."""
        from urllib.parse import quote

        found: list[dict[str, Any]] = []
        after = ""
        while True:
            part = self.get(f"{path}&limit=1000" + (f"&after={quote(after, safe='')}" if after else ""))
            found += part[member]
            after = part.get("next") or ""
            if not after or len(found) >= most:
                return found

    def metrics(self) -> Iterator[Series]:
        """Name, labels and value of each series."""
        for line in self._transport.text("/metrics").splitlines():
            match = _SERIES.fullmatch(line)
            if match is not None:
                yield match[1], {name: _unescaped(value) for name, value in _LABEL.findall(match[2] or "")}, float(match[3])


def _unescaped(value: str) -> str:
    return re.sub(r"\\.", lambda found: _ESCAPES.get(found[0], found[0]), value) if "\\" in value else value


class _Transport(Transport):
    """Below /v1, with errors as problem+json."""

    def __init__(self, url: str, *, user: str, password: str, timeout_s: float) -> None:
        super().__init__(url, user=user, password=password, timeout_s=timeout_s)
        self._root = self._prefix.removesuffix("/api")
        self._prefix = self._root + "/v1"

    def text(self, path: str) -> str:
        status, answer = self._exchange("GET", self._root + path, None, self._headers)
        if status != 200:
            raise Refused(path, status, None, f"the server answered {status}")
        return answer.decode("utf-8", "replace")

    def _read(self, status: int, answer: bytes, what: str) -> Any:
        try:
            value = json.loads(answer) if answer.strip() else None
        except ValueError:
            raise NotManagement(
                f"{self.address} is no Headrace: it answered {status} and no JSON; give its HTTP address with --http"
            ) from None
        if status < 300:
            return value
        problem = value if isinstance(value, dict) else {}
        code, detail = problem.get("code"), problem.get("detail")
        if status == 404:
            raise NotFound(f"{self.address} has no {what}: it is no Headrace, or an older one")
        if status == 401:
            raise LoginFailed(f"{self.address} does not take user {self._user!r} with this password; see --user and --password")
        raise Refused(what, status, None if code is None else str(code), str(detail) if detail else f"it answered {status}")
