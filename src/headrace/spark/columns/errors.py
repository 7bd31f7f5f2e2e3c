"""What can be wrong with rows that are to be encoded. Apart from the twins, because both raise it."""

from __future__ import annotations


class NoSuchPartition(ValueError):
    """A row asks for a partition that its topic does not have: `topic` is its number among `counts`."""

    def __init__(self, topic: int, partition: int) -> None:
        super().__init__(topic, partition)
        self.topic = topic
        self.partition = partition
