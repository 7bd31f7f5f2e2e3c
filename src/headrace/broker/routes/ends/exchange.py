"""An exchange of AMQP, as what a route publishes to."""

from __future__ import annotations

from typing import ClassVar

from headrace.broker.routes.ends.end import Json
from headrace.broker.routes.ends.parsing import check_members, flag, text
from headrace.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ExchangeTarget:
    """It need not be there yet. Without a routing key each record's own key is that."""

    exchange: str
    vhost: str = "/"
    routing_key: str | None = None
    mandatory: bool = True  # a record that no queue takes has failed

    kind: ClassVar[str] = "exchange"

    def json(self) -> dict[str, object]:
        return {
            "type": self.kind,
            "vhost": self.vhost,
            "exchange": self.exchange,
            "routing_key": self.routing_key,
            "mandatory": self.mandatory,
        }

    def shown(self) -> dict[str, object]:
        return self.json()

    @property
    def label(self) -> str:
        vhost = "" if self.vhost == "/" else f" in vhost '{self.vhost}'"
        return f"exchange {self.exchange or 'amq.default'}{vhost}"

    @classmethod
    def of(cls, given: Json) -> ExchangeTarget:
        check_members(given, {"type", "vhost", "exchange", "routing_key", "mandatory"}, "destination.")
        routing_key = given.get("routing_key")
        return cls(
            text(given, "exchange", "destination."),
            text(given, "vhost", "destination.", default="/"),
            None if routing_key is None else text(given, "routing_key", "destination."),
            flag(given, "mandatory", "destination.", default=True),
        )
