"""The HTTP front end: Starlette on our own web server (`headrace.web`), in the event loop of this process.

    listener   the socket, and the web server on it once somebody connects
    app        the way in: which path belongs to which resource
    health     /health and /ready
    metrics    /metrics; `collecting`, `queue_metrics` and `route_metrics` gather what it tells
    management /api: RabbitMQ's management API
    v1         /v1: topics, streams, sockets, administration; and what everything below /v1 passes through
    routes     /v1/routes
    webhooks   what is below it for routes to URLs: attempts, secrets; `webhook_metrics` for /metrics
    receive    /v1/receive: webhooks that come in
    authentication   who asks
    problems   errors as problem+json, for everything below /v1

One file for each resource. Nothing in here is imported before the first connection, the listener aside: a server nobody
asks over HTTP pays for a bound socket. Imports the broker, `log.port` and `web`; imported by
`server`.
"""
