"""What went through a virtual host since the server started, for those who compute rates of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.dataclass import dataclass

if TYPE_CHECKING:
    from headrace.broker.queues.any_queue import AnyQueue


@dataclass(slots=True)
class Counted:
    """What channels and queues that are gone have counted: to know it all, add those that are there (`Clients.published`)."""

    published: int = 0  # through channels
    arrived: int = 0  # in queues
    delivered: int = 0
    redelivered: int = 0
    acknowledged: int = 0
    dropped: int = 0

    def add(self, queue: AnyQueue) -> None:
        self.arrived += queue.published
        self.delivered += queue.delivered
        self.redelivered += queue.redelivered
        self.acknowledged += queue.acknowledged
        self.dropped += queue.dropped
