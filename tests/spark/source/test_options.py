"""What the options mean, and what is said about those that make no sense."""

from __future__ import annotations

import pickle

import pytest

from headrace.client.kafka.partitions import TopicPartition
from headrace.client.kafka.security import NO_SECURITY, Sasl, Security, Tls
from headrace.spark.connections import Endpoint
from headrace.spark.options import BadOption
from headrace.spark.pieces import ReadSettings
from headrace.spark.source.positions import EARLIEST, LATEST, AtTimes, Everywhere, Exact
from headrace.spark.source.settings import Limits, Retrying, SourceSettings, read_settings
from headrace.spark.source.subscription import Subscription


def settings(streaming: bool | None = True, /, **given: str) -> SourceSettings:
    named = {name.replace("__", "."): value for name, value in given.items()}
    if not {"subscribe", "subscribePattern", "assign"} & named.keys():
        named["subscribe"] = "t"
    return read_settings({name.lower(): value for name, value in named.items()}, streaming=streaming)


def refused(streaming: bool | None = True, /, **given: str) -> str:
    with pytest.raises(BadOption) as caught:
        settings(streaming, **given)
    return str(caught.value)


def test_the_defaults() -> None:
    assert settings() == SourceSettings(
        endpoint=Endpoint("127.0.0.1:9092", timeout_s=60.0, client_id="headrace-spark", security=NO_SECURITY),
        subscription=Subscription(topics=("t",)),
        start=Everywhere(LATEST),
        end=Everywhere(LATEST),
        limits=Limits(None, None, 900.0, None, None),
        retrying=Retrying(3, 1.0),
        metadata_age_s=0,
        reading=ReadSettings(read_committed=True, include_headers=False, fail_on_data_loss=True),
    )
    assert settings(False).start == Everywhere(EARLIEST)


def test_every_option_arrives() -> None:
    read = settings(
        kafka__bootstrap__servers="a:1,b:2",
        kafka__client__id="me",
        kafka__default__api__timeout__ms="5000",
        subscribe="x, y,,x",
        startingOffsets="EARLIEST",
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="2m",
        minPartitions="7",
        maxRecordsPerPartition="9",
        failOnDataLoss="false",
        includeHeaders="TRUE",
        kafka__isolation__level="read_uncommitted",
        fetchOffset__numRetries="5",
        fetchOffset__retryIntervalMs="20",
        partition__metadata__cache__ttl__ms="3000",
        groupIdPrefix="p",
        kafka__group__id="g",
        kafka__max__poll__records="50000",
        kafkaConsumer__pollTimeoutMs="1000",
    )
    assert read == SourceSettings(
        endpoint=Endpoint("a:1,b:2", timeout_s=5.0, client_id="me"),
        subscription=Subscription(topics=("x", "y")),
        start=Everywhere(EARLIEST),
        end=Everywhere(LATEST),
        limits=Limits(100, 10, 120.0, 7, 9),
        retrying=Retrying(5, 0.02),
        metadata_age_s=3.0,
        reading=ReadSettings(read_committed=False, include_headers=True, fail_on_data_loss=False),
    )
    assert pickle.loads(pickle.dumps(read)) == read


def test_bootstrap_is_short_for_the_servers() -> None:
    assert settings(bootstrap="h:1").endpoint.servers == "h:1"
    assert "mean the same" in refused(bootstrap="h:1", kafka__bootstrap__servers="h:2")


def test_exactly_one_way_to_say_what_is_read() -> None:
    with pytest.raises(BadOption, match=r"exactly one of the options subscribe, subscribePattern and assign .* none was given"):
        read_settings({}, streaming=True)
    assert "both subscribe and assign were given" in refused(subscribe="t", assign='{"t": [0]}')


def test_subscriptions() -> None:
    assert settings(subscribePattern="a.*b").subscription == Subscription(pattern="a.*b")
    assert settings(assign='{"t": [2, 0], "s": [1]}').subscription == Subscription(
        assigned=(TopicPartition("s", 1), TopicPartition("t", 0), TopicPartition("t", 2))
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribe": " , "}, "option subscribe is empty"),
        ({"subscribePattern": ""}, "option subscribePattern is empty"),
        ({"subscribePattern": "a["}, "option subscribePattern 'a[' is not a regular expression"),
        ({"assign": "t"}, "option assign is not JSON"),
        ({"assign": "{}"}, 'option assign: use JSON as in {"topic": [0, 1]}'),
        ({"assign": '{"t": []}'}, "option assign, topic t: use JSON"),
        ({"assign": '{"t": [-1]}'}, "option assign, topic t: use JSON"),
        ({"assign": '{"t": [true]}'}, "option assign, topic t: use JSON"),
        ({"startingOffsets": "soon"}, "option startingOffsets is 'soon': use earliest, latest or JSON"),
        ({"startingOffsets": '{"t": 1}'}, "option startingOffsets: topic t: use a partition's number and its offset"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, "option startingOffsets: topic t: 'x' is not the number of a partition"),
        ({"startingOffsets": '{"t": {"0": "1"}}'}, "topic t, partition 0: '1' is not a whole number"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "t[0]: use an offset, -1 for the latest or -2 for the earliest"),
        ({"startingOffsets": "{"}, "option startingOffsets is not JSON"),
        ({"startingTimestamp": "noon"}, "option startingTimestamp is 'noon': use a whole number"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -1}}'}, "t[0]: use milliseconds since 1970"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "is 'guess': use error or latest"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for batch queries"),
        ({"endingTimestamp": "1"}, "option endingTimestamp is for batch queries"),
        ({"endingOffsetsByTimestamp": '{"t": {"0": 1}}'}, "option endingOffsetsByTimestamp is for batch queries"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is '0': use a whole number, 1 or more"),
        ({"minPartitions": "2.5"}, "option minPartitions is '2.5'"),
        ({"maxRecordsPerPartition": "-1"}, "option maxRecordsPerPartition is '-1'"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay is 'soon': use a duration such as"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger is 9, more than"),
        ({"failOnDataLoss": "maybe"}, "option failOnDataLoss is 'maybe': use true or false"),
        ({"kafka.isolation.level": "dirty"}, "is 'dirty': use read_committed or read_uncommitted"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset is not supported: startingOffsets says where"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer is not supported: keys are bytes"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer is not supported: values are bytes"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes is not supported"),
        ({"bootstrap": "host:port"}, "option kafka.bootstrap.servers: 'host:port' is not an address: the port is a number"),
        ({"startingOfsets": "earliest"}, "there is no option startingofsets; did you mean startingOffsets?"),
        ({"kafka.max.pol.records": "1"}, "there is no option kafka.max.pol.records; did you mean kafka.max.poll.records?"),
        ({"topic": "t"}, "there is no option topic"),
    ],
)
def test_what_is_said_about_options_that_make_no_sense(given: dict[str, str], words: str) -> None:
    assert words in refused(**given)


def test_positions_have_the_preference_of_sparks_connector() -> None:
    offsets = {"startingOffsets": '{"t": {"0": 3, "1": -2}}'}
    times = {"startingOffsetsByTimestamp": '{"t": {"0": 5}}', **offsets}
    assert settings(**offsets).start == Exact({TopicPartition("t", 0): 3, TopicPartition("t", 1): EARLIEST})
    assert settings(**times).start == AtTimes(for_each={TopicPartition("t", 0): 5})
    assert settings(startingTimestamp="7", **times).start == AtTimes(for_all=7)
    later = settings(startingTimestamp="7", startingOffsetsByTimestampStrategy="LATEST")
    assert later.start == AtTimes(for_all=7, or_latest=True)


def test_a_batch_has_an_end_too() -> None:
    assert settings(False, endingOffsets='{"t": {"0": 9}}').end == Exact({TopicPartition("t", 0): 9})
    assert settings(False, endingTimestamp="8").end == AtTimes(for_all=8, or_latest=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest in a batch query"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "startingOffsets can't be latest in a batch query"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest in a batch query"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "endingOffsets can't be earliest in a batch query"),
        (
            {"startingOffsets": '{"t": {"0": 1}}', "endingOffsets": '{"t": {"1": 1}}'},
            "startingOffsets and endingOffsets must name the same partitions: t[0], t[1] only in one",
        ),
        (
            {"startingOffsets": '{"t": {"0": 5}}', "endingOffsets": '{"t": {"0": 4}}'},
            "t[0]: startingOffsets has 5, which is after 4 in endingOffsets",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 5}}', "endingOffsetsByTimestamp": '{"t": {"0": 4}}'},
            "t[0]: startingOffsetsByTimestamp has 5, which is after 4",
        ),
    ],
)
def test_a_batch_that_could_read_nothing_is_refused(given: dict[str, str], words: str) -> None:
    assert words in refused(False, **given)


PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al ice" password="a\\"b;c";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required\n  username=carol\n  password=x1 ;"


@pytest.mark.parametrize(
    ("given", "security"),
    [
        ({}, NO_SECURITY),
        ({"security.protocol": "plaintext"}, NO_SECURITY),
        ({"security.protocol": "SSL"}, Security(Tls())),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/ca.pem", "ssl.truststore.type": "pem"},
            Security(Tls(authorities_file="/ca.pem")),
        ),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem", "ssl.endpoint.identification.algorithm": ""},
            Security(Tls(authorities_file="/ca.pem", check_hostname=False)),
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/me.pem", "ssl.key.password": "pw"},
            Security(Tls(certificate_file="/me.pem", key_password="pw")),
        ),
        (
            {"security.protocol": "SSL", "ssl.certificate.location": "/me.crt", "ssl.key.location": "/me.key"},
            Security(Tls(certificate_file="/me.crt", key_file="/me.key")),
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.certificate.chain": "CRT", "ssl.keystore.key": "KEY"},
            Security(Tls(certificate_pem="CRT", key_pem="KEY")),
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN},
            Security(sasl=Sasl("PLAIN", "al ice", 'a"b;c')),
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "scram-sha-512", "sasl.jaas.config": SCRAM},
            Security(Tls(), Sasl("SCRAM-SHA-512", "carol", "x1")),
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "u",
                "sasl.password": "p",
            },
            Security(sasl=Sasl("PLAIN", "u", "p")),
        ),
    ],
)
def test_security_settings_have_kafkas_names(given: dict[str, str], security: Security) -> None:
    assert settings(**{f"kafka.{name}": value for name, value in given.items()}).endpoint.security == security


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"security.protocol": "TLS"}, "is 'TLS': use PLAINTEXT or SSL or SASL_PLAINTEXT or SASL_SSL"),
        ({"sasl.mechanism": "PLAIN"}, "kafka.sasl.mechanism would not be used, since kafka.security.protocol is PLAINTEXT"),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "ssl.ca.location": "/x"},
            "kafka.ssl.ca.location would not be used",
        ),
        ({"security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is missing: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}, "is OAUTHBEARER, which is not supported"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "is GSSAPI, which is not supported"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "user and password are missing"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "geheim"},
            "kafka.sasl.jaas.config can't be read: use",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM.replace("x1", "geheim")},
            "names ScramLoginModule, but PLAIN needs PlainLoginModule",
        ),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "a.PlainLoginModule required;"},
            "has no username or no password",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": PLAIN,
                "sasl.password": "geheim",
            },
            "give kafka.sasl.jaas.config, or kafka.sasl.username and kafka.sasl.password, not both",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "is JKS: only PEM is read; 'keytool"),
        ({"security.protocol": "SSL", "ssl.keystore.type": "PKCS12"}, "is PKCS12: only PEM is read"),
        ({"security.protocol": "SSL", "ssl.truststore.password": "geheim"}, "kafka.ssl.truststore.password is not supported"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "x"}, "kafka.ssl.cipher.suites is not supported"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/a", "ssl.truststore.location": "/b"},
            "mean the same: give one of them",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "use https, or an empty text"),
    ],
)
def test_security_that_would_not_be_had_is_refused_without_a_password_in_the_words(given: dict[str, str], words: str) -> None:
    said = refused(**{f"kafka.{name}": value for name, value in given.items()})
    assert words in said
    assert "geheim" not in said


def test_no_text_of_the_settings_has_a_password() -> None:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": "geheim"}
    assert "geheim" not in repr(settings(**{f"kafka.{name}": value for name, value in given.items()}))


# ConsumerConfig.configNames() of Apache Kafka 4.3.1
CONSUMER_SETTINGS = """
allow.auto.create.topics auto.commit.interval.ms auto.offset.reset bootstrap.servers check.crcs client.dns.lookup
client.id client.rack config.providers connections.max.idle.ms default.api.timeout.ms enable.auto.commit
enable.metrics.push exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id
group.protocol group.remote.assignor heartbeat.interval.ms interceptor.classes
internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer max.partition.fetch.bytes
max.poll.interval.ms max.poll.records metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
partition.assignment.strategy receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class sasl.jaas.config sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism sasl.oauthbearer.assertion.algorithm
sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
sasl.oauthbearer.token.endpoint.url security.protocol security.providers send.buffer.bytes session.timeout.ms
share.acknowledgement.mode share.acquire.mode socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
ssl.cipher.suites ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type value.deserializer
""".split()  # noqa: SIM905


@pytest.mark.parametrize("name", CONSUMER_SETTINGS)
def test_every_setting_of_kafkas_consumer_is_honoured_or_without_effect_or_refused_with_a_reason(name: str) -> None:
    said = f"kafka.{name}"
    try:
        settings(**{f"kafka.{name}": "1"})
    except BadOption as refused:
        said = str(refused)
    assert f"kafka.{name}" in said
    assert "there is no option" not in said
