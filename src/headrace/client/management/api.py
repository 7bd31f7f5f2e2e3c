"""A call for each thing that the management API lists, makes, removes or does.

Names are taken as they are and quoted here. What already exists with the same properties is made again without an error, as
in AMQP: the calls that declare say whether it was new.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from headrace.client.management.errors import NotFound, NotManagement, Refused, Unsupported
from headrace.client.management.transport import Transport, segment
from headrace.client.management.values import (
    Binding,
    Connection,
    Exchange,
    Message,
    Policy,
    Queue,
    VirtualHost,
    mapping,
)

DEFAULT_EXCHANGE = "amq.default"  # how the API calls the exchange without a name


class Management:
    def __init__(self, url: str, *, user: str = "guest", password: str = "guest", timeout_s: float = 30.0) -> None:
        self._transport = Transport(url, user=user, password=password, timeout_s=timeout_s)

    @property
    def address(self) -> str:
        return self._transport.address

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Management:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def overview(self) -> dict[str, Any]:
        return mapping(self._transport.request("GET", "/overview", what="the overview"))

    # Queues

    def queues(self, vhost: str | None) -> list[Queue]:
        """Those of one virtual host, or of all."""
        return [Queue.of(one) for one in self._list("queues", vhost)]

    def queue(self, vhost: str, name: str) -> Queue:
        return Queue.of(self._transport.request("GET", _queue(vhost, name), what=f"queue '{name}'"))

    def declare_queue(
        self,
        vhost: str,
        name: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> bool:
        """True when it is new."""
        wanted = {"durable": durable, "auto_delete": auto_delete, "arguments": dict(arguments or {})}
        existed = self._exists(_queue(vhost, name))
        self._transport.request("PUT", _queue(vhost, name), wanted, what=f"queue '{name}'")
        return not existed

    def delete_queue(self, vhost: str, name: str, *, if_empty: bool = False, if_unused: bool = False) -> None:
        path = _queue(vhost, name) + _query({"if-empty": if_empty, "if-unused": if_unused})
        self._transport.request("DELETE", path, what=f"queue '{name}'")

    def purge_queue(self, vhost: str, name: str) -> None:
        self._transport.request("DELETE", f"{_queue(vhost, name)}/contents", what=f"queue '{name}'")

    def bindings_of_queue(self, vhost: str, name: str) -> list[Binding]:
        found = self._transport.request("GET", f"{_queue(vhost, name)}/bindings", what=f"queue '{name}'")
        return [Binding.of(one) for one in found]

    # Messages

    def get_messages(self, vhost: str, name: str, *, count: int, requeue: bool) -> list[Message]:
        """Takes messages off the queue for good; with `requeue` they go back, flagged as redelivered."""
        wanted = {
            "count": count,
            "ackmode": "ack_requeue_true" if requeue else "ack_requeue_false",
            "encoding": "auto",
        }
        found = self._transport.request("POST", f"{_queue(vhost, name)}/get", wanted, what=f"queue '{name}'")
        return [Message.of(one) for one in found]

    def peek_messages(self, vhost: str, name: str, *, count: int, skip: int = 0) -> list[Message]:
        """Reads messages and leaves them as they are. Headrace only."""
        path = f"{_queue(vhost, name)}/peek?{urlencode({'count': count, 'skip': skip})}"
        return [Message.of(one) for one in self._own(vhost, name, "GET", path, None, what=f"peek into queue '{name}'")]

    def publish(
        self, vhost: str, exchange: str, routing_key: str, body: bytes, properties: Mapping[str, object] | None = None
    ) -> bool:
        """True when a queue took it. `properties` by AMQP's names, headers among them."""
        message = {
            "routing_key": routing_key,
            "properties": dict(properties or {}),
            "payload": base64.b64encode(body).decode(),
            "payload_encoding": "base64",
        }
        what = f"publish to exchange '{exchange}'"
        answer = self._transport.request("POST", f"{_exchange(vhost, exchange)}/publish", message, what=what)
        return bool(mapping(answer).get("routed", False))

    def move_messages(
        self,
        vhost: str,
        name: str,
        *,
        count: int,
        queue: str | None = None,
        exchange: str | None = None,
        routing_key: str | None = None,
    ) -> int:
        """Moves up to `count` of the oldest messages to a queue, or publishes them to an exchange, under their own routing key
        unless one is given. What no queue takes there stays in its place. Returns how many were moved. Headrace only."""
        wanted: dict[str, object] = {"count": count}
        if queue is not None:
            wanted["destination"] = queue
        else:
            wanted["exchange"] = exchange
        if routing_key is not None:
            wanted["routing_key"] = routing_key
        path = f"{_queue(vhost, name)}/move"
        return int(mapping(self._own(vhost, name, "POST", path, wanted, what=f"move from queue '{name}'")).get("moved", 0))

    def retry_dead(self, vhost: str, name: str, *, count: int) -> int:
        """Sends dead letters among the `count` oldest messages back to the queue in which they first died. What did not die
        in another queue, or in one that is gone, stays in its place. Returns how many went. Headrace only."""
        path, wanted = f"{_queue(vhost, name)}/retry-dead", {"count": count}
        return int(mapping(self._own(vhost, name, "POST", path, wanted, what=f"retry from queue '{name}'")).get("moved", 0))

    # Exchanges

    def exchanges(self, vhost: str | None) -> list[Exchange]:
        return [Exchange.of(one) for one in self._list("exchanges", vhost)]

    def exchange(self, vhost: str, name: str) -> Exchange:
        return Exchange.of(self._transport.request("GET", _exchange(vhost, name), what=f"exchange '{name}'"))

    def declare_exchange(
        self,
        vhost: str,
        name: str,
        kind: str,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> bool:
        """True when it is new."""
        wanted = {
            "type": kind,
            "durable": durable,
            "auto_delete": auto_delete,
            "internal": internal,
            "arguments": dict(arguments or {}),
        }
        existed = self._exists(_exchange(vhost, name))
        self._transport.request("PUT", _exchange(vhost, name), wanted, what=f"exchange '{name}'")
        return not existed

    def delete_exchange(self, vhost: str, name: str, *, if_unused: bool = False) -> None:
        path = _exchange(vhost, name) + _query({"if-unused": if_unused})
        self._transport.request("DELETE", path, what=f"exchange '{name}'")

    def bindings_of_exchange(self, vhost: str, name: str, *, as_source: bool) -> list[Binding]:
        path = f"{_exchange(vhost, name)}/bindings/{'source' if as_source else 'destination'}"
        return [Binding.of(one) for one in self._transport.request("GET", path, what=f"exchange '{name}'")]

    # Bindings

    def bindings(self, vhost: str | None) -> list[Binding]:
        return [Binding.of(one) for one in self._list("bindings", vhost)]

    def bindings_between(self, vhost: str, source: str, destination: str, kind: str) -> list[Binding]:
        what = f"exchange '{source}' or {kind} '{destination}'"
        found = self._transport.request("GET", _between(vhost, source, destination, kind), what=what)
        return [Binding.of(one) for one in found]

    def bind(
        self,
        vhost: str,
        source: str,
        destination: str,
        kind: str,
        routing_key: str,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        wanted = {"routing_key": routing_key, "arguments": dict(arguments or {})}
        what = f"exchange '{source}' or {kind} '{destination}'"
        self._transport.request("POST", _between(vhost, source, destination, kind), wanted, what=what)

    def unbind(self, binding: Binding) -> None:
        between = _between(binding.vhost, binding.source, binding.destination, binding.destination_kind)
        what = f"binding '{binding.properties_key}'"
        self._transport.request("DELETE", f"{between}/{segment(binding.properties_key)}", what=what)

    # Virtual hosts, policies, connections

    def vhosts(self) -> list[VirtualHost]:
        return [VirtualHost.of(one) for one in self._transport.request("GET", "/vhosts", what="the virtual hosts")]

    def create_vhost(self, name: str, *, description: str | None = None) -> bool:
        """True when it is new. One that exists keeps its description unless another is given."""
        path = f"/vhosts/{segment(name)}"
        existed = self._exists(path)
        if not existed or description is not None:
            self._transport.request("PUT", path, {"description": description or ""}, what=f"vhost '{name}'")
        return not existed

    def delete_vhost(self, name: str) -> None:
        self._transport.request("DELETE", f"/vhosts/{segment(name)}", what=f"vhost '{name}'")

    def policies(self, vhost: str | None) -> list[Policy]:
        return [Policy.of(one) for one in self._list("policies", vhost)]

    def set_policy(self, policy: Policy) -> None:
        wanted = {
            "pattern": policy.pattern,
            "apply-to": policy.apply_to,
            "priority": policy.priority,
            "definition": policy.definition,
        }
        path = f"/policies/{segment(policy.vhost)}/{segment(policy.name)}"
        self._transport.request("PUT", path, wanted, what=f"policy '{policy.name}'")

    def clear_policy(self, vhost: str, name: str) -> None:
        self._transport.request("DELETE", f"/policies/{segment(vhost)}/{segment(name)}", what=f"policy '{name}'")

    def connections(self) -> list[Connection]:
        found = self._transport.request("GET", "/connections", what="the connections")
        # RabbitMQ lists a connection before it has gathered anything about it but its name's parts
        return [Connection.of(one) for one in found if "name" in one]

    def close_connection(self, name: str, reason: str) -> None:
        path = f"/connections/{segment(name)}"
        self._transport.request("DELETE", path, what=f"connection '{name}'", headers={"X-Reason": reason})

    # Definitions

    def definitions(self, vhost: str | None = None) -> dict[str, Any]:
        """Everything that can be declared, of the server or of one virtual host."""
        path = "/definitions" if vhost is None else f"/definitions/{segment(vhost)}"
        return mapping(self._transport.request("GET", path, what=f"vhost '{vhost}'"))

    def import_definitions(self, definitions: Mapping[str, Any], vhost: str | None = None) -> None:
        path = "/definitions" if vhost is None else f"/definitions/{segment(vhost)}"
        self._transport.request("POST", path, dict(definitions), what="the definitions")

    def _list(self, kind: str, vhost: str | None) -> Sequence[dict[str, Any]]:
        path = f"/{kind}" if vhost is None else f"/{kind}/{segment(vhost)}"
        found = self._transport.request("GET", path, what=f"vhost '{vhost}'")
        if not isinstance(found, list):
            raise NotManagement(f"{self.address} answered /api{path} with something else than a list")
        return found

    def _own(self, vhost: str, name: str, method: str, path: str, body: object, *, what: str) -> Any:
        """A call about a queue that only Headrace has. RabbitMQ knows no such path, and says so in several ways."""
        try:
            return self._transport.request(method, path, body, what=what)
        except (NotFound, NotManagement) as error:
            if isinstance(error, NotFound) and not error.plain:
                raise
        except Refused as error:
            if error.code is not None or error.status not in (400, 404, 405, 501):
                raise
        self.queue(vhost, name)  # or it is the queue that is not there
        raise Unsupported(f"{what}: this server has no such call; it needs Headrace")

    def _exists(self, path: str) -> bool:
        try:
            self._transport.request("GET", path, what="")
        except NotFound:
            return False
        return True


def _queue(vhost: str, name: str) -> str:
    return f"/queues/{segment(vhost)}/{segment(name)}"


def _exchange(vhost: str, name: str) -> str:
    return f"/exchanges/{segment(vhost)}/{segment(name or DEFAULT_EXCHANGE)}"


def _between(vhost: str, source: str, destination: str, kind: str) -> str:
    letter = "e" if kind == "exchange" else "q"
    return f"/bindings/{segment(vhost)}/e/{segment(source or DEFAULT_EXCHANGE)}/{letter}/{segment(destination)}"


def _query(flags: Mapping[str, bool]) -> str:
    given = {name: "true" for name, value in flags.items() if value}
    return f"?{urlencode(given)}" if given else ""
