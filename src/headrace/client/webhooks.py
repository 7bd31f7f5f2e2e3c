"""A small blocking client of what /v1/routes knows about webhooks: their attempts, their secrets, and to send something again.

with WebhooksClient("http://127.0.0.1:8080") as webhooks:
    for attempt in webhooks.attempts("to-crm", status="failed"):
        print(attempt["at"], attempt["error"])
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from headrace.client.management.transport import segment
from headrace.client.routes import Route, RoutesClient

PAGE = 500


class WebhooksClient(RoutesClient):
    def all(self) -> list[Route]:
        """Those that send webhooks."""
        return [route for route in super().all() if route.destination.get("type") == "webhook"]

    def attempts(
        self,
        name: str,
        *,
        since: str | None = None,
        until: str | None = None,
        status: str | None = None,
        event: str | None = None,
        limit: int | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The newest first; fetched page by page, as they are asked for."""
        given = {"since": since, "until": until, "status": status, "event": event}
        wanted = {key: value for key, value in given.items() if value is not None}
        return islice(self._pages(name, wanted, limit), limit)

    def _pages(self, name: str, wanted: dict[str, str], limit: int | None) -> Iterator[dict[str, Any]]:
        size = PAGE if limit is None else max(1, min(limit, PAGE))
        cursor: str | None = None
        while True:
            query = urlencode({**wanted, "limit": size} | ({} if cursor is None else {"cursor": cursor}))
            page = self._ask("GET", name, f"attempts?{query}")
            yield from page["attempts"]
            cursor = page["cursor"]
            if cursor is None:
                return

    def attempt(self, name: str, number: str) -> dict[str, Any]:
        """With the request as it was sent."""
        return self._ask("GET", name, f"attempts/{segment(number)}")

    def send_again(self, name: str, number: str) -> dict[str, Any]:
        """The event of that attempt, now."""
        return self._ask("POST", name, f"attempts/{segment(number)}/replay", {})

    def send_failed_again(self, name: str, since: str | None = None, until: str | None = None) -> dict[str, Any]:
        """What failed between these times, and has not been delivered since."""
        return self._ask("POST", name, "attempts/replay", {"from": since, "to": until})

    def test(self, name: str) -> dict[str, Any]:
        """Sends something that is no event. What came of it."""
        return self._ask("POST", name, "test", {})

    def rotate(self, name: str, secret: str | None = None, keep_s: int = 86_400) -> dict[str, Any]:
        """A new secret; the old ones sign too for so long."""
        return self._ask("POST", name, "rotate-secret", {"secret": secret, "keep_s": keep_s})

    def secrets(self, name: str) -> list[dict[str, Any]]:
        """For administrators."""
        return list(self._ask("GET", name, "secret")["secrets"])

    def _ask(self, method: str, name: str, rest: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        answer = self._transport.request(method, f"/routes/{segment(name)}/{rest}", body, what=f"route '{name}'")
        return dict(answer)
