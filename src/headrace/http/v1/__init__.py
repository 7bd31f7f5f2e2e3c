"""/v1: topics, published to and read over HTTP, and what is administered.

    shell          what every request passes: `gate` (Host and Origin), `admission` (how many at once), `errors` (as problems)
    events         an event as JSON, both ways
    moments        points in time as they stand in a request
    topic_events   /v1/topics/{topic}/events: `publish` (with `ndjson` and `idempotency`), `read`, `record`;
                   `quick_publish` takes single events before any of this (`gathering`)
    appending      what a topic lets in, and batches of it
    bodies         bodies of requests, with their bounds; `patience` is for those that take long
    access         what a user may do with a topic
    following      readers of a topic that grows: `position`, `starting`, `keeping` (filters), `pages`; `sending` to their peers
    sse            /v1/topics/{topic}/stream: server-sent events
    socket         WebSockets: `socket_session`, `socket_messages`, `socket_publishing`, `subscription`
    operations     tables of what can be done: `admin` with `topics`, `groups`, `group_offsets`, `group_reset`, `brokered`;
                   `listing`
    openapi/       all of it described

One file for each resource, each with a function `routes(broker)`. Errors are problem+json. Imports what `http` may import.
"""
