"""Where a reader of a topic stands, as one text: the `id` of a server-sent event, and so the `Last-Event-ID` that a browser
comes back with.

    kQ3fZg.16.7.0     behind the name of the topic's life, the next offset of each partition, from partition 0 on
    kQ3fZg.3:16       the same of a reader of partition 3 alone

The name is the beginning of the topic's id: a topic that was deleted and made anew is another one, and offsets of the old one
mean nothing there. Partitions that were added since are read from their beginning.

Bound: `MAX_PARTITIONS`; a reader of a topic with more must choose one.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from uuid import UUID

from headrace.dataclass import dataclass

MAX_PARTITIONS = 256

_FORM = re.compile(r"([A-Za-z0-9_-]{6})((?:\.[0-9]{1,19}){1,256}|\.([0-9]{1,9}):([0-9]{1,19}))", re.ASCII)


class BadPosition(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Position:
    life: str
    offsets: dict[int, int]  # by partition
    single: bool = False  # of a reader of one partition alone

    @classmethod
    def of(cls, text: str) -> Position:
        """Raises BadPosition."""
        found = _FORM.fullmatch(text)
        if found is None:
            raise BadPosition("not a position that this server gave out")
        life, several, partition, offset = found.groups()
        if partition is not None:
            return cls(life, {int(partition): int(offset)}, single=True)
        return cls(life, {index: int(digits) for index, digits in enumerate(several[1:].split("."))})


def life_of(topic_id: UUID) -> str:
    return urlsafe_b64encode(topic_id.bytes)[:6].decode()


def position_text(life: str, offsets: dict[int, int], only: int | None) -> str:
    """`offsets` has every partition from 0 on, in that order; or only one."""
    if only is not None:
        return f"{life}.{only}:{offsets[only]}"
    return f"{life}.{'.'.join(map(str, offsets.values()))}"
