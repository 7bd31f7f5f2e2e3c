"""ZeroMQ between programs, no server: the same Event, by PUB/SUB, PUSH/PULL and REQ/REP.

    with headrace.connect("zmq+tcp://127.0.0.1:5556") as channel:
        publisher = channel.publisher()                       # binds
        publisher.send(Event.of({"price": 101.5}), topic="prices.ACME")

    with headrace.connect("zmq+tcp://127.0.0.1:5556") as channel:
        for received in channel.subscriber("prices."):        # connects
            print(received.topic, received.event.json())

    channel       what `connect` returns: an address, its options, and the sockets made of them
    sockets       what all of those have in common
    publishing    Publisher and Subscriber
    pushing       Pusher and Puller
    requesting    Requester and Replier
    errors        what can go wrong

Imports `record`, `zeromq.wire` and pyzmq; imported by `client.connect` when a URL asks for it.
"""

from headrace.client.zeromq.channel import Channel, connect
from headrace.client.zeromq.errors import NoReply, RequestFailed, ZeroMqError
from headrace.client.zeromq.publishing import Publisher, Subscriber
from headrace.client.zeromq.pushing import Puller, Pusher
from headrace.client.zeromq.requesting import Replier, Requester
from headrace.zeromq.wire.keys import KeyPair

__all__ = [
    "Channel",
    "KeyPair",
    "NoReply",
    "Publisher",
    "Puller",
    "Pusher",
    "Replier",
    "RequestFailed",
    "Requester",
    "Subscriber",
    "ZeroMqError",
    "connect",
]
