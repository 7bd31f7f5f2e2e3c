"""ZeroMQ: sockets as ends of routes, both ways between them and topics.

    wire/        what client and server share: the form of messages, options of sockets, CURVE
    routes       what the composition root calls: a destination or an intake for a route
    sending      topic → PUB or PUSH
    intake       SUB or PULL → topic
    opened       the socket of a route, in a context of its own
    twin         many messages in one call, compiled where there was a compiler; `pure` where not
    guard        connections that bring in more than may wait
    handover     when what was given to libzmq has left this process
    notices      what libzmq says of connections, in log lines that nobody can flood

Imported when the first such route begins, and pyzmq with it. Imports `broker.routes`, `log` and `record`; `wire` knows nothing
of the broker and is also what `headrace.client.zeromq` speaks with.
"""
