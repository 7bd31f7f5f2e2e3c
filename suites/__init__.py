"""Other projects' own tests, run against a Headrace server: `python -m suites NAME`.

    kafka-python   kafka-python's integration tests
    kafka-cli      Apache Kafka's command-line tools, as a sequence of steps
    kombu          kombu's integration tests of its Kafka transport
    moto-kinesis   moto's tests of Kinesis

Each is one file here. Sources, environments and jars come through pip and Maven into a cache folder (`sources`); the server is
started for the run (`--bootstrap` names another). For developers: slow, and dependent on other people's releases, so not
part of `make test`.
"""
