"""What the listener imports when the first connection comes: everything of this front end at once, so that no request waits for
an import."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.kinesis.front_door import FrontDoor
from headrace.kinesis.operations import load_all
from headrace.kinesis.service import Service
from headrace.web.describing import WebDoor
from headrace.web.limits import Limits
from headrace.web.server import WebServer

if TYPE_CHECKING:
    from headrace.broker import Broker
    from headrace.broker.traffic import Traffic

load_all()


def open_door(broker: Broker, traffic: Traffic, connections: int) -> tuple[Service, WebServer]:
    service = Service(broker, traffic)
    door = FrontDoor(service)
    server = service.server = WebServer(door.handle, Limits(connections=connections))
    broker.clients.doors["kinesis"] = WebDoor("kinesis", lambda: server)
    return service, server
