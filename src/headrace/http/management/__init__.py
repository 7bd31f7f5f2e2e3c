"""RabbitMQ's management API under /api: what scripts, exporters and command lines ask a broker over HTTP.

    api          from a request to an answer: paths, who asks, the body, errors
    call         one request, as the resources see it
    errors       refusals and the answers they become
    listing      sorting, paging, choosing columns; `finding` names
    rates        how fast counters grow, from one question to the next
    bodies       reading what was sent
    statistics   counters of queues and virtual hosts under RabbitMQ's names
    …            one file for each resource: its routes, and what it answers

Field names, status codes and texts are RabbitMQ's; what its fields tell about Erlang is left out. See docs/management.md.
"""
