"""Who is logged in: the browser has a signed cookie with a random number, the name and password behind it stay in this process.

As long as the server takes `guest` with its default password from this machine, nobody has to log in. Bounds: `MOST` sessions,
the one used longest ago goes; `IDLE_S` without a request ends one.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

from headrace.console.access import GUEST, Access, Credentials, Server, ServerError

MOST = 1000
IDLE_S = 12 * 3600.0
_WHOAMI = "/api/whoami"


class Sessions:
    def __init__(self, server: Server, now: Callable[[], float] = time.monotonic) -> None:
        self._server = server
        self._now = now
        self._known: OrderedDict[str, tuple[float, Credentials]] = OrderedDict()

    async def access(self, browser: str) -> Access | None:
        """For whoever sits at this browser; None if they have to log in."""
        known = self._known.get(browser)
        if known is not None:
            if self._now() - known[0] <= IDLE_S:
                self._known[browser] = (self._now(), known[1])
                self._known.move_to_end(browser)
                return self._server.access(known[1])
            del self._known[browser]
        return await self._guest()

    async def log_in(self, browser: str, user: str, password: str) -> None:
        """Raises ServerError."""
        credentials = Credentials(user, password)
        await self._server.access(credentials).get(_WHOAMI)
        self._known[browser] = (self._now(), credentials)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def log_out(self, browser: str) -> None:
        self._known.pop(browser, None)

    def logged_in(self, browser: str) -> bool:
        return browser in self._known

    async def _guest(self) -> Access | None:
        guest = self._server.access(GUEST)
        try:
            await guest.get(_WHOAMI)
        except ServerError as error:
            if error.status in (401, 403):
                return None
        return guest  # a server that is away is shown as that
