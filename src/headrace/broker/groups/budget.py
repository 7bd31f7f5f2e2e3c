"""How many bytes clients make the coordinator keep, over all groups, and where that ends.

Whoever adds something that a client can repeat without end asks `fits` first. At the bound a newcomer is turned away
(GROUP_MAX_SIZE_REACHED for a member, COORDINATOR_NOT_AVAILABLE for a group) and those who are in go on.
"""

from __future__ import annotations

from headrace.broker.groups.settings import MAX_MEMBERSHIP_BYTES, OVERHEAD_BYTES


class Budget:
    __slots__ = ("used_bytes",)

    def __init__(self) -> None:
        self.used_bytes = 0

    def fits(self, size_bytes: int) -> bool:
        return self.used_bytes + size_bytes <= MAX_MEMBERSHIP_BYTES


def size_of_name(name: str) -> int:
    """What a group takes, or a member that was given an id and has not used it yet."""
    return OVERHEAD_BYTES + len(name)
