"""The HTTP front end: Starlette on Granian, in the event loop of the server.

    listener   the socket, and Granian on it once somebody connects
    app        which path belongs to which resource
    health     /health and /ready
    metrics    /metrics; `collecting` gathers what it tells

One file for each resource. Nothing in here is imported before the first connection, the listener aside: a server nobody
asks over HTTP pays for a bound socket. Imports the broker and `log.port`; imported by `server`.
"""
