"""Virtual hosts: the names of exchanges, queues and bindings, what was declared under them and who may use them.

`hosts` keeps the virtual hosts of the broker; `vhost` is one of them: declare, bind, delete, in `publishing` the way of a run
from an exchange into queues. `arguments` and `equivalence` hold RabbitMQ's checks and their texts; `policies` and `effective`
say what holds for a queue; `definitions_table` keeps everything durable as rows of a table, `definitions_json` reads and writes
RabbitMQ's definitions files; `users` says who may log in and do what. No sockets, no frames. May import `broker.queues`,
`broker.exchanges`, `log`, `record` and `clock`; front ends import it.
"""
