"""Routes: from a topic to somewhere, or from somewhere into a topic.

    definition     what a route is, as people write it and as it is stored; `ends/` has what its ends are
    errors         what is answered instead of doing what was asked
    ports          the ports to what works at the ends, with sockets that the broker knows nothing of
    making         which run a route has, by its ends
    opening        a run that is opened, and opened again later where that fails
    destination    the port to where records go
    exchange       the destination that is an exchange of AMQP
    runs           messages that go the same way
    topic          the destination that is a topic
    filling        writing into a topic: which partition takes what
    inlet          what comes in from outside, on its way into a topic
    receiving      the port to what takes requests from outside
    reading        what is read of a partition, and in what form it is passed on
    dead_letters   records that can't be delivered, as records of another topic
    counts         what a route has done since the server started
    cursor         the place of a route in one partition
    transfer       one life of a route that reads a topic: reads, delivers, remembers how far it is durable
    positions      where a route stands: the offsets of a group
    commits        positions on their way to being committed
    refreshing     positions that nobody commits, kept from expiring
    shaping        filter and transform
    replaying      a period that is delivered once more
    changing       what a route that is there may become
    circles        routes that would feed each other for ever
    route          a route, its state, and what was asked of it
    routes         all of them
    table          their rows

Imports the rest of the broker, `log.port` and `record`; imported by the broker itself and by front ends.
"""

from headrace.broker.routes.routes import Routes

__all__ = ["Routes"]
