"""Webhooks: events of a topic sent to a URL, and events that come in by one.

Sending, a route's run of its own (`broker.routes.ports.Run`):

    signing          signatures of Standard Webhooks
    request          an event as an HTTP request
    schedule         when an event that failed is tried again, and when it is given up
    limits           what one endpoint is spared: a circuit breaker, a rate, how many requests at once
    pending          events that wait for another attempt: rows of the table `__headrace_webhook_pending`
    changes          what becomes of events, written down: those rows come, change and go
    lanes            events that must not overtake each other
    window           what was read of a partition and is not settled yet, and how far everything is
    reading          what a route reads, as far as there is room
    item             an event on its way
    endpoint         how the endpoint is asked, and when it is not asked any more
    attempting       attempts, and what comes of them
    giving_up        events that are given up, as dead letters
    attempt          one attempt, as a record of the topic `<route>.attempts`
    attempt_topic    writes them
    attempt_search   finds them again
    period           events that are sent again: one, or those of a period
    alarms           one timer for everything that waits for a time
    engine           what all such routes share: the client, the table, the budget of requests and bytes, reading, committing
    run              one route
    desk             what people ask of it: attempts, to send something again, a test (`broker.routes.sending`)
    outbound/        the HTTP client that connects to nobody it should not

Receiving, a route's intake (`broker.routes.receiving`):

    verifying        signatures of those who send
    received         which events have come in already
    incoming         one route

Imports the broker, `log.port` and `record`; imported by `server` when a route needs it.
"""
