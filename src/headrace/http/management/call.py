"""One request, as the resources see it: who asks, what the path names, the query and the body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from headrace.dataclass import dataclass
from headrace.http.management.bodies import Body, parse
from headrace.http.management.errors import ApiError, missing, not_authorised

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.vhosts.users import User
    from headrace.broker.vhosts.vhost import VirtualHost
    from headrace.http.management.rates import Rates

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"
DEFAULT_EXCHANGE = "amq.default"  # what the default exchange is called in paths


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` becomes JSON; None is no content."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)


CREATED, NO_CONTENT = Answer(201), Answer(204)


@dataclass(frozen=True, slots=True)
class Call:
    broker: Broker
    rates: Rates
    user: User
    parts: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    raw_body: bytes = b""
    durable_unless_said: bool = False  # what is declared: RabbitMQ's API makes it transient

    # --- what is asked for

    def __getitem__(self, part: str) -> str:
        return self.parts[part]

    def body(self) -> Body:
        return parse(self.raw_body)

    def flag(self, name: str) -> bool:
        return self.query.get(name) == "true"

    # --- who asks

    @property
    def administers(self) -> bool:
        return ADMINISTRATOR in self.user.tags

    @property
    def monitors(self) -> bool:
        return self.administers or MONITORING in self.user.tags

    def sees(self, vhost: str) -> bool:
        return self.monitors or vhost in self.user.permissions

    # --- what the path names

    def vhost(self) -> VirtualHost:
        """The virtual host of the path, which must be there and open to the user: who monitors finds it in lists only."""
        vhost = self.broker.vhosts.get(self["vhost"])
        if vhost is None:
            raise missing()
        if not self.administers and vhost.name not in self.user.permissions:
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    def vhosts(self) -> list[VirtualHost]:
        """Those that the user may see; only the one that the path names, if it names one."""
        if "vhost" in self.parts:
            return [self.vhost()]
        return [vhost for vhost in self.broker.vhosts if self.sees(vhost.name)]

    def vhost_to_write(self) -> VirtualHost:
        """To put something into one that is not there has an answer of its own."""
        if self.broker.vhosts.get(self["vhost"]) is None:
            raise ApiError(404, "not_found", "vhost_not_found")
        return self.vhost()

    def vhost_to_use(self) -> VirtualHost:
        """To change something in it or to read messages, monitoring it is not enough."""
        vhost = self.vhost()
        if vhost.name not in self.user.permissions:
            raise not_authorised("User not authorised to access virtual host")
        return vhost

    # --- answers

    async def durable(self) -> None:
        """What was changed is on the disk."""
        await self.broker.vhosts.turns.synced()


Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Resource:
    """A path below /api, `{name}` standing for any segment, and what can be done with it. `tag` is who may read,
    `write_tag` who may do more than that if it is not the same; `public` is for those who have not logged in."""

    path: str
    methods: Mapping[str, Handler]
    tag: str = MANAGEMENT
    write_tag: str = ""
    public: bool = False

    def needs(self, method: str) -> str:
        return self.write_tag if self.write_tag and method != "GET" else self.tag
