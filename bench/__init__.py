"""Benchmarks: Headrace and Apache Kafka 4.3.1, measured in the same run on the same machine.

    python -m bench --help

`peers` starts and stops the servers, `frames` builds the requests that `loadgen.c` replays, `rdload.c` drives them with
librdkafka, `cases/` holds one file for each thing that is measured, `suite` runs them in alternating rounds, `report`
turns the outcome into the table of docs/benchmarks.md. The package uses Headrace's message and record codecs to build
requests and talks to servers over their ports, never to the inside of one. Tests may import `bench.peers` for a real
Kafka to compare with.
"""
