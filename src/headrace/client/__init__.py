"""Clients of Headrace's own protocols: users of the wire, never of the inside.

`kafka/` is a small blocking Kafka client, made for the command line and for scripts; it works on any Kafka. `management/` is
one of RabbitMQ's management HTTP API, as Headrace serves it; it works on a RabbitMQ. `routes` is one of /v1/routes. May import
`record`, `kafka.codec` and `kafka.messages`; imported by `cli` and, later, by the public `headrace.connect(url)`.
"""
