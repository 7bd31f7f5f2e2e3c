"""Clients of Headrace's own protocols: users of the wire, never of the inside.

`kafka/` is a small blocking Kafka client, made for the command line and for scripts; it works on any Kafka. `management/` is
one of RabbitMQ's management HTTP API, as Headrace serves it; it works on a RabbitMQ. `kinesis/` is one of the API of Amazon
Kinesis; it works on whatever else serves that. `routes` is one of /v1/routes, `server` of what a server tells about itself;
`http_link` is the connection under all of them. `zeromq/` and `multicast/` are between programs, with or without a server;
`connect` is the public `headrace.connect(url)`, which finds them by the scheme, and `received` what a subscriber gets. May
import `record` and what protocols have of their wire (`kafka.codec`, `kafka.messages`, `zeromq.wire`, `multicast.feed`);
imported by `cli` and by whoever uses Headrace.
"""
