"""The endpoint of a route: how it is asked, what it is spared (`limits`), and when it is not asked any more.

It is disabled when it answers 410 (it wants no more events, says the specification), and when it has failed without a break for
`disable_after_s`, counted from when its breaker opened first; that is remembered over restarts. Somebody must resume the route
then.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from headrace.broker.routes.ends.webhook import WebhookTarget
from headrace.broker.routes.errors import RouteConflict, RouteError
from headrace.log.errors import LogError
from headrace.webhooks.attempt import Outcome
from headrace.webhooks.limits import Limits
from headrace.webhooks.outbound import AllowList, OutboundError, check_url
from headrace.webhooks.schedule import span

if TYPE_CHECKING:
    from headrace.webhooks.engine import Engine
    from headrace.webhooks.pending import RouteRows
    from headrace.webhooks.request import Request

logger = logging.getLogger("headrace.webhooks")

KEPT_RESPONSE = 1024
GONE = 410


class Endpoint:
    def __init__(self, route: str, target: WebhookTarget, engine: Engine, rows: RouteRows | None = None) -> None:
        """Without rows nothing is remembered of it. Raises RouteConflict."""
        self.limits = Limits(target.concurrency, target.rate_per_s, engine.around.clock.monotonic())
        self.last_failure: str | None = None
        self.disabling: str | None = None
        self._route = route
        self._target = target
        self._engine = engine
        self._rows = rows
        try:
            self.url = check_url(target.url)
            self._allow = AllowList.of(target.allow)
        except ValueError as error:
            raise RouteConflict(f"destination: {error}") from None

    @property
    def error(self) -> str | None:
        if self.disabling is not None:
            return self.disabling
        breaker = self.limits.breaker
        if breaker.is_open:
            return f"{breaker.failures} attempts in a row have failed, the last one with: {self.last_failure}"
        return None

    async def post(self, request: Request) -> Outcome:
        try:
            answer = await self._engine.outbound.post(
                self.url,
                request.headers,
                request.body,
                timeout_s=self._target.timeout_s,
                max_response_bytes=KEPT_RESPONSE,
                allow=self._allow,
            )
        except OutboundError as error:
            return Outcome(error=error.reason, kind=error.kind)
        except ValueError as error:  # a header that no request may have
            return Outcome(error=str(error), kind="request")
        except Exception as error:  # a mistake of ours, which must not lose the event
            logger.exception("route '%s'", self._route)
            return Outcome(error=f"an error of the server's own: {type(error).__name__}; see its log", kind="internal")
        self._engine.answered(len(request.body))
        retry_after = next((value for name, value in answer.headers if name.lower() == b"retry-after"), None)
        return Outcome(answer.status, None, None, answer.address, answer.body_start, retry_after)

    def succeeded(self) -> None:
        self.limits.succeeded()
        self.is_well()

    def is_well(self) -> None:
        self.last_failure = None
        if self._failing_since_ms is not None:
            logger.info("route '%s': %s takes events again", self._route, self._target.label)
            self._note_failing(None)

    def failed(self, outcome: Outcome, asked_s: float | None) -> bool:
        """Whether its breaker has opened with that."""
        clock = self._engine.around.clock
        now_ms = clock.now_ms()
        self.last_failure = outcome.reason
        opened = self.limits.failed(clock.monotonic(), self._engine.random.random(), asked_s)
        if opened:
            logger.warning(
                "route '%s': %s has failed %d times in a row, the last time with: %s; nothing is sent for a while",
                self._route, self._target.label, self.limits.breaker.failures, outcome.reason,
            )  # fmt: skip
            if self._failing_since_ms is None:
                self._note_failing(now_ms)
        since = self._failing_since_ms
        if outcome.status == GONE:
            self._disable("the endpoint answered 410 Gone: it wants no more events")
        elif since is not None and self._target.disable_after_s and now_ms - since >= 1000 * self._target.disable_after_s:
            self._disable(f"the endpoint has failed for {span(now_ms - since)} on end, the last time with: {outcome.reason}")
        return opened

    @property
    def _failing_since_ms(self) -> int | None:
        return None if self._rows is None else self._rows.failing_since_ms

    def _note_failing(self, since_ms: int | None) -> None:
        if self._rows is None:
            return
        try:
            self._rows.fails_since(since_ms)
        except LogError as error:
            logger.warning("route '%s': %s", self._route, error)

    def _disable(self, reason: str) -> None:
        if self.disabling is None:
            self.disabling = reason
            logger.warning("route '%s' is disabled: %s", self._route, reason)
            self._engine.aside(self._store_disabled(reason))

    async def _store_disabled(self, reason: str) -> None:
        if self._failing_since_ms is not None:  # it begins anew when somebody resumes the route
            self._note_failing(None)
        try:
            await self._engine.around.disable(self._route, reason)
        except RouteError as error:
            logger.warning("route '%s' can't be disabled now: %s", self._route, error)
            self.disabling = None  # the next answer of that kind tries again
