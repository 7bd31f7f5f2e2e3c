"""The broker: state machines without sockets or files, which every front end talks to.

    broker         holds the parts together
    topics         making, growing, changing and deleting topics
    groups/        consumer groups of both protocols, share groups, their offsets
    transactions/  what is committed or aborted as one; `producers` gives out their ids
    exchanges/, queues/, vhosts/   what RabbitMQ's clients declare, and the policies and users of it
    streams/       topics as streams of Kinesis: shards and their families
    routes/        from topics to elsewhere and from elsewhere into topics
    quotas/, acls  what clients may use, and do
    settings       of the server, with `dynamic_settings`; `group_configs` and `client_metrics` those of groups and clients
    audit, lag, traffic, clients, telemetry, spans   what is seen of all that

May import `record`, `expressions` and `log`; imported by the front ends and `server`.
"""

from headrace.broker.broker import Broker

__all__ = ["Broker"]
