"""Which records a reader keeps: `filter` in CEL, the language of routes' filters (see `broker.routes.shaping`).

A record that the condition can't be evaluated for (there is no such member in its value) is not kept.

Bound: `MAX_BYTES` of a condition; what an evaluation may take is bounded where it is done.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.broker.routes.errors import InvalidRoute
from headrace.broker.routes.reading import Portion
from headrace.broker.routes.shaping import PAUSE_S, Shape, filter_of
from headrace.http.problems import Problem
from headrace.http.v1.pages import Page

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.log.port import Topic

MAX_BYTES = 4096


class Keep:
    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    async def of(self, page: Page, partition: int, wake: asyncio.Event) -> Page | None:
        """What it keeps of the page. None: try again when `wake` is set, which will be soon."""
        if not page.records:
            return page
        shaped = await self._shape.apply(page.records, partition)
        if shaped.wait is not None:
            asyncio.get_running_loop().call_later(PAUSE_S, wake.set)
        if not shaped.looked_at:
            return None
        whole = shaped.looked_at == len(page.records)
        following = page.next_offset if whole else page.records[shaped.looked_at].offset
        kept = Page(partition, Portion(following, shaped.records))
        kept.size = page.size  # the work that it was
        return kept


async def keep_of(broker: Broker, topic: Topic, condition: str | None) -> Keep | None:
    """Raises Problem."""
    if condition is None:
        return None
    if len(condition.encode()) > MAX_BYTES:
        raise Problem(400, "invalid_filter", f"a filter has at most {MAX_BYTES} bytes")
    try:
        return Keep(await filter_of(condition, topic.name, broker.routes.surroundings.visitors))
    except InvalidRoute as error:
        raise Problem(400, "invalid_filter", str(error)) from None
