"""Benchmarks: Headrace, Apache Kafka 4.3.1 and RabbitMQ, measured in the same run on the same machine.

    python -m bench --help

`peers` and `rabbitmq` start and stop the servers. For Kafka's protocol `frames` builds the requests that `loadgen.c` replays,
and `rdload.c` drives servers with librdkafka; for AMQP `amqp_load` drives them with the Go program in `amqp/`, `perf_test` with
RabbitMQ's own PerfTest. `cases/` holds one file for each thing that is measured, `suite` runs them in alternating rounds,
`report` turns the outcome into the table of docs/benchmarks.md. The package uses Headrace's message and record codecs to build
requests and talks to servers over their ports, never to the inside of one. Tests may import `bench.peers` for a real Kafka
and `bench.rabbitmq` for a real RabbitMQ to compare with.
"""
