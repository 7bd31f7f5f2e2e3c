"""Other projects' own tests, run against a Headrace server: `python -m suites NAME`.

    kafka-python   kafka-python's integration tests
    kafka-cli      Apache Kafka's command-line tools, as a sequence of steps
    kombu          kombu's integration tests of its Kafka transport
    kombu-amqp     the same of its AMQP transport
    py-amqp        py-amqp's integration tests
    rabbitpy       rabbitpy's integration tests
    amqpstorm      AMQPStorm's functional tests, of the protocol and of the management API
    moto-kinesis   moto's tests of Kinesis

Each is one file here. Sources, environments and jars come through pip and Maven into a cache folder (`sources`); the server is
started for the run (`--server` names another). For developers: slow, and dependent on other people's releases, so not
part of `make test`.
"""
