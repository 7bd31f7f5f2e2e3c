"""Exchanges: where a message goes. No queues and no frames here, only names, bindings and routing.

`router` holds the exchanges and bindings of one virtual host and answers, for an exchange and a routing key, with the
queues. Each exchange type is a `matcher` of its own: `direct`, `fanout`, `topic`, `headers`, `hashing`, `chance`; `kinds`
says which type has which and what it checks. Queues are opaque here: anything hashable with a name. May import `record`
and the errors of `broker.queues`; imported by the virtual hosts.
"""

from headrace.broker.exchanges.binding import Binding
from headrace.broker.exchanges.exchange import Exchange
from headrace.broker.exchanges.kinds import check_exchange
from headrace.broker.exchanges.router import Router

__all__ = ["Binding", "Exchange", "Router", "check_exchange"]
