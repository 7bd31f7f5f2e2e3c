"""The cluster features that ApiVersions shows and UpdateFeatures changes (KIP-584).

Clients decide by the finalized levels what they may use: group.version 1 is the group protocol of KIP-848,
transaction.version 2 the transactions of KIP-890, share.version 1 share groups. So a level here is what this server
does, not what Apache Kafka 4.3 can do, and a new ability is announced by raising one number.
"""

from __future__ import annotations

from typing import NamedTuple


class Feature(NamedTuple):
    name: str
    min_version: int
    max_version: int
    finalized: int  # 0: not in use, and not listed among the finalized ones


FEATURES: tuple[Feature, ...] = (
    Feature("eligible.leader.replicas.version", 0, 0, 0),
    Feature("group.version", 0, 1, 1),
    Feature("kraft.version", 0, 0, 0),
    Feature("metadata.version", 7, 30, 30),  # 3.3-IV3 to 4.3-IV0
    Feature("share.version", 0, 1, 1),
    Feature("streams.version", 0, 0, 0),
    Feature("transaction.version", 0, 2, 2),
)

EPOCH = 0
"""Grows when finalized levels change, which here happens with a new version of the server only."""
