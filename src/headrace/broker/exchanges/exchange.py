"""An exchange: a name, a type and what it was declared with. Its bindings live in the router."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType

from headrace.dataclass import dataclass

NO_ARGUMENTS: Mapping[str, object] = MappingProxyType({})

DELAYED = "x-delayed-message"


@dataclass(slots=True, eq=False)
class Exchange:
    """Compared and hashed by identity: an exchange that was deleted and declared anew is another one.

    `alternate` is the exchange that takes what this one can't route. The argument decides; without one a policy may,
    through `Router.set_alternate`.
    """

    name: str
    kind: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Mapping[str, object] = field(default_factory=lambda: NO_ARGUMENTS)
    alternate: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        alternate = self.arguments.get("alternate-exchange")
        self.alternate = alternate if isinstance(alternate, str) else None

    @property
    def routing_kind(self) -> str:
        """How it routes: its type, or for a delayed exchange the type behind the delay."""
        return str(self.arguments.get("x-delayed-type")) if self.kind == DELAYED else self.kind
