"""The AMQP 0-9-1 front end: what RabbitMQ's clients speak, on top of the broker's virtual hosts, exchanges and queues.

`arguments`, `methods` and `frames` are the codec: bytes to methods and back. They know nothing of the broker. The rest
is the server side of the protocol: `listener` accepts, `connection` reads and writes one socket, a channel does what
the methods ask for. The hot paths, publishing and delivering, are in `headrace.record.amqp.twin`. Imports the broker,
the log's port and `record`; only the server imports this package.
"""
