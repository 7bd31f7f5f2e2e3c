"""What a queue was declared as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from headrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    name: str
    vhost: str
    queue_id: bytes  # 16 of them; names its topic and its acknowledgements, so that a later queue of this name is another one
    durable: bool = False
    exclusive: bool = False
    auto_delete: bool = False
    arguments: Mapping[str, object] = field(default_factory=dict)
    kind: str = "classic"  # or "quorum", "stream"
