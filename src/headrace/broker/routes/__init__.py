"""Routes: durable readers of a topic, each with a destination.

    definition     what a route is, as people write it and as it is stored
    errors         what is answered instead of doing what was asked
    destination    the port to where records go
    exchange       the destination that is an exchange of AMQP
    runs           messages that go the same way
    reading        what is read of a partition, and in what form it is passed on
    dead_letters   records that can't be delivered, as records of another topic
    counts         what a route has done since the server started
    cursor         the place of a route in one partition
    transfer       one life of a route: reads, delivers, remembers how far it is durable
    positions      where a route stands: the offsets of a group
    route          a route, its state, and what was asked of it
    routes         all of them, and their table

Imports the rest of the broker, `log.port` and `record`; imported by the broker itself and by front ends.
"""

from headrace.broker.routes.routes import Routes

__all__ = ["Routes"]
