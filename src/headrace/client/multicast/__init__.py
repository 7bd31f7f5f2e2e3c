"""Feeds over UDP multicast, as a client sends and receives them.

    channel = headrace.connect("udp://239.255.0.1:5007?feed=prices")
    with channel.publisher() as publisher:
        publisher.send(Event.of({"symbol": "HDRC", "price": 12.5}, key="HDRC"))
    for received in channel.subscriber(recover="127.0.0.1:9092"):
        print(received.offset, received.event.json())

    options      what can be said in the URL and by keywords
    channel      a URL, from which publishers and subscribers are made
    publisher    sends; no server is needed
    subscriber   receives in order; gaps are told, or fetched back from the log
    recovery     reads gaps from a topic over TCP, on a thread of its own

The format, and all that is sans-IO, is `headrace.multicast.feed`. docs/multicast.md says what is promised and what is not.
"""

from headrace.client.multicast.channel import Channel, connect
from headrace.client.multicast.publisher import Publisher
from headrace.client.multicast.subscriber import Subscriber
from headrace.multicast.feed.counts import Counts, Gap
from headrace.multicast.feed.packing import TooLarge

__all__ = ["Channel", "Counts", "Gap", "Publisher", "Subscriber", "TooLarge", "connect"]
