"""The HTTP front end: Starlette on Granian, in the event loop of the server.

    listener   the socket, and Granian on it once somebody connects
    app        which path belongs to which resource
    health     /health and /ready
    metrics    /metrics; `collecting`, `queue_metrics` and `route_metrics` gather what it tells
    management /api: RabbitMQ's management API
    routes     /v1/routes
    authentication   who asks
    problems   errors as problem+json, for everything below /v1

One file for each resource. Nothing in here is imported before the first connection, the listener aside: a server nobody
asks over HTTP pays for a bound socket. Imports the broker and `log.port`; imported by `server`.
"""
