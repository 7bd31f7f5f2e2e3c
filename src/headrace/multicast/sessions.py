"""The session of a topic's feed: stands for the log, as long as an offset in it means the same record.

It is the first half of the topic's id. A topic in memory is forgotten when the server ends, but not its id: there the session
is of this life of the server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.log.port import Durability

if TYPE_CHECKING:
    from headrace.broker.routes.ports import Surroundings
    from headrace.log.port import Topic

_LIFE = "multicast.life"  # among what the runs share


def session_of(topic: Topic, surroundings: Surroundings) -> int:
    session = topic.topic_id.int >> 64
    if topic.partitions[0].durability is Durability.MEMORY:
        life = surroundings.shared.setdefault(_LIFE, int.from_bytes(os.urandom(8), "big"))
        assert isinstance(life, int)
        session ^= life
    return session
