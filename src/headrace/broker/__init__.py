"""Topics, groups and, later, transactions, exchanges, queues, routes and policy: state machines without sockets or files.

May import `record` and `log`; imported by the front ends and `server`.
"""

from headrace.broker.broker import Broker

__all__ = ["Broker"]
