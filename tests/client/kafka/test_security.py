"""TLS and SASL: the steps of the mechanisms by themselves, then connections to a real Apache Kafka that asks for them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.peers import SMALL_JVM, PeerError, Server, free_port, kafka_java, kafka_libs, start_kafka

from headrace.client.kafka import Cluster, Producer, Reader, TopicPartition, start_offsets
from headrace.client.kafka.security import Sasl, Security, SecurityError, Tls, sasl_steps
from headrace.client.kafka.topics import create_topic, wait_until_led
from headrace.record.event import Event

# The exchange of RFC 7677 section 3, for user "user" with password "pencil".
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
RFC_ANSWER = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
RFC_PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
RFC_OUTCOME = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_steps():
    return sasl_steps(Sasl("SCRAM-SHA-256", "user", "pencil"), nonce=RFC_NONCE)


def test_scram_says_what_its_rfc_says() -> None:
    steps = rfc_steps()
    assert next(steps) == RFC_FIRST
    assert steps.send(RFC_ANSWER) == RFC_PROOF
    with pytest.raises(StopIteration):
        steps.send(RFC_OUTCOME)


@pytest.mark.parametrize(
    "answer",
    [
        RFC_ANSWER.replace(RFC_NONCE.encode(), b"another"),
        RFC_ANSWER.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""),
        RFC_ANSWER.replace(b"i=4096", b"i=1"),
        RFC_ANSWER.replace(b"i=4096", b"i=99999999999"),
        RFC_ANSWER.replace(b"s=W22Z", b"s=!!!!"),
        b"\xff\xfe",
        b"",
    ],
)
def test_a_scram_server_that_does_not_play_by_the_rules_gets_no_proof(answer: bytes) -> None:
    steps = rfc_steps()
    next(steps)
    with pytest.raises(SecurityError):
        steps.send(answer)


@pytest.mark.parametrize("outcome", [b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G5=", b"e=other-error", b""])
def test_a_scram_server_that_does_not_know_the_password_is_not_believed(outcome: bytes) -> None:
    steps = rfc_steps()
    next(steps)
    steps.send(RFC_ANSWER)
    with pytest.raises(SecurityError):
        steps.send(outcome)


def test_signs_with_a_meaning_in_scram_are_escaped_in_names() -> None:
    assert next(sasl_steps(Sasl("SCRAM-SHA-512", "a,b=c", "x"), nonce="n")) == b"n,,n=a=2Cb=3Dc,r=n"


def test_plain_sends_name_and_password() -> None:
    steps = sasl_steps(Sasl("PLAIN", "alice", "secret"))
    assert next(steps) == b"\0alice\0secret"
    with pytest.raises(StopIteration):
        steps.send(b"")


def test_an_unknown_mechanism_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(SecurityError, match="OAUTHBEARER is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"):
        next(sasl_steps(Sasl("OAUTHBEARER", "a", "b")))


def test_passwords_are_in_no_text() -> None:
    security = Security(Tls(key_password="geheim1", key_pem="geheim2"), Sasl("PLAIN", "alice", "geheim3"))
    assert "geheim" not in f"{security!r} {security}"


# --- against Kafka ---


class Secured(NamedTuple):
    server: Server
    tls: str
    scram: str
    both: str
    mutual: str
    folder: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A Kafka with a listener for each way in: SASL_PLAINTEXT, SSL, SASL_SSL, and SSL that asks for our certificate."""
    try:
        kafka_libs()
        kafka_java("kafka.Kafka")
    except PeerError as error:
        pytest.skip(f"no Kafka to compare with: {error}")
    folder = tmp_path_factory.mktemp("secured")
    make_certificates(folder)
    plain, tls, scram, both, mutual, controller = (free_port() for _ in range(6))
    ports = {"PLAINTEXT": plain, "TLS": tls, "SCRAM": scram, "BOTH": both, "MUTUAL": mutual}
    protocols = {"CONTROLLER": "PLAINTEXT", "PLAINTEXT": "PLAINTEXT", "TLS": "SSL", "SCRAM": "SASL_PLAINTEXT"}
    protocols |= {"BOTH": "SASL_SSL", "MUTUAL": "SSL"}
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    module = "org.apache.kafka.common.security"
    users = f'{module}.plain.PlainLoginModule required user_alice="s3cret" user_bob="x y";'
    overrides = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": folder / "server.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": folder / "ca.crt",
        "listener.name.mutual.ssl.client.auth": "required",
        "connection.failed.authentication.delay.ms": 0,
        "connections.max.reauth.ms": 2000,
    }
    for listener in ("scram", "both"):
        for mechanism in ("scram-sha-256", "scram-sha-512"):
            name = f"listener.name.{listener}.{mechanism}.sasl.jaas.config"
            overrides[name] = f"{module}.scram.ScramLoginModule required;"
        overrides[f"listener.name.{listener}.plain.sasl.jaas.config"] = users
    with start_kafka(folder / "data", port=plain, overrides=overrides, jvm=SMALL_JVM) as server:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            add_user(server.bootstrap, "carol", "p=ss,word", mechanism)
        yield Secured(server, *(f"127.0.0.1:{port}" for port in (tls, scram, both, mutual)), folder)


def add_user(bootstrap: str, name: str, password: str, mechanism: str) -> None:
    options = ["--alter", "--add-config", f"{mechanism}=[password={password}]", "--entity-type", "users", "--entity-name", name]
    command = kafka_java("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *options, jvm=SMALL_JVM)
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def make_certificates(folder: Path) -> None:
    """An authority of our own, a server's certificate for 127.0.0.1, a client's, and one of an authority nobody trusts."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder, timeout=60)

    for authority in ("ca", "stranger"):
        files = ("-keyout", f"{authority}.key", "-out", f"{authority}.crt")
        usage = ("-days", "2", "-addext", "basicConstraints=critical,CA:TRUE")
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={authority}", *usage, *files)
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    for name, extension in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")):
        (folder / f"{name}.ext").write_text(extension)
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-extfile", f"{name}.ext", "-out", f"{name}.crt")
        (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())


def round_trip(bootstrap: str, security: Security, name: str) -> None:
    """A topic is made, written and read: every connection, not only the first, has to be let in."""
    cluster = Cluster(bootstrap, timeout_s=20, security=security)
    create_topic(cluster, name, partitions=2)
    wait_until_led(cluster, name)
    producer = Producer(cluster)
    large = bytes(range(256)) * 2000
    for index in range(20):
        producer.send(name, Event(b"%d" % index, large))
    producer.flush()
    reader = Reader(cluster, start_offsets(cluster, [TopicPartition(name, 0), TopicPartition(name, 1)]))
    found = []
    while len(found) < 20:
        found += reader.poll()
    assert sorted(int(one.key or b"") for one in found) == list(range(20))
    assert {one.value for one in found} == {large}
    reader.close()
    cluster.close()


@pytest.mark.parametrize(
    ("mechanism", "user", "password"),
    [
        ("PLAIN", "alice", "s3cret"),
        ("PLAIN", "bob", "x y"),
        ("SCRAM-SHA-256", "carol", "p=ss,word"),
        ("SCRAM-SHA-512", "carol", "p=ss,word"),
    ],
)
def test_each_mechanism_lets_us_in(secured: Secured, mechanism: str, user: str, password: str) -> None:
    round_trip(secured.scram, Security(sasl=Sasl(mechanism, user, password)), f"sasl-{mechanism}-{user}")


def test_tls_with_an_authority_of_our_own(secured: Secured) -> None:
    round_trip(secured.tls, Security(Tls(authorities_file=str(secured.folder / "ca.crt"))), "tls")


def test_tls_with_the_authority_as_text_and_sasl_inside(secured: Secured) -> None:
    tls = Tls(authorities_pem=(secured.folder / "ca.crt").read_text())
    round_trip(secured.both, Security(tls, Sasl("SCRAM-SHA-512", "carol", "p=ss,word")), "tls-sasl")


def test_a_server_that_asks_for_our_certificate_gets_it_from_files_or_from_text(secured: Secured) -> None:
    folder = secured.folder
    authority = str(folder / "ca.crt")
    one_file = Tls(authorities_file=authority, certificate_file=str(folder / "client.pem"))
    two_files = Tls(
        authorities_file=authority, certificate_file=str(folder / "client.crt"), key_file=str(folder / "client.key")
    )
    text = Tls(
        authorities_file=authority,
        certificate_pem=(folder / "client.crt").read_text(),
        key_pem=(folder / "client.key").read_text(),
    )
    for index, tls in enumerate((one_file, two_files, text)):
        round_trip(secured.mutual, Security(tls), f"mutual-{index}")


def test_the_spark_source_reads_with_options_of_kafkas_names(secured: Secured) -> None:
    pytest.importorskip("pyspark")
    from headrace.spark.source.batch import BatchReader
    from headrace.spark.source.settings import read_settings

    security = Security(Tls(str(secured.folder / "ca.crt")), Sasl("PLAIN", "alice", "s3cret"))
    round_trip(secured.both, security, "spark-secured")
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    given = {
        "subscribe": "spark-secured",
        "kafka.bootstrap.servers": secured.both,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": f'{module} required username="carol" password="p=ss,word";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(secured.folder / "ca.crt"),
    }
    reader = BatchReader(read_settings(given, streaming=False))
    found = [row["key"] for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]
    assert sorted(map(int, found)) == list(range(20))


def test_a_connection_that_lasts_longer_than_a_session_says_again_who_we_are(secured: Secured) -> None:
    """The server ends sessions after two seconds (KIP-368) and would close the connection."""
    cluster = Cluster(secured.scram, timeout_s=20, security=Security(sasl=Sasl("SCRAM-SHA-256", "carol", "p=ss,word")))
    first = cluster.any()
    until = first._known_until
    assert until < float("inf")
    while first._known_until == until:
        cluster.metadata(())
    assert not first.closed
    assert cluster.any() is first


def test_a_wrong_password_is_told_without_the_password(secured: Secured) -> None:
    for mechanism, user in (("PLAIN", "alice"), ("SCRAM-SHA-256", "carol"), ("SCRAM-SHA-512", "carol")):
        with pytest.raises(SecurityError, match=f"refused user '{user}' with {mechanism}: wrong name or password") as caught:
            Cluster(secured.scram, timeout_s=20, security=Security(sasl=Sasl(mechanism, user, "geheim"))).metadata()
        assert "geheim" not in str(caught.value)


def test_a_server_without_sasl_is_told_apart(secured: Secured) -> None:
    with pytest.raises(SecurityError, match="does not take SASL here"):
        Cluster(secured.server.bootstrap, timeout_s=20, security=Security(sasl=Sasl("PLAIN", "alice", "s3cret"))).metadata()


def test_a_server_of_an_unknown_authority_or_another_name_is_not_trusted(secured: Secured) -> None:
    with pytest.raises(SecurityError, match=r"can't trust 127\.0\.0\.1:[0-9]+: "):
        Cluster(
            secured.tls, timeout_s=20, security=Security(Tls(authorities_file=str(secured.folder / "stranger.crt")))
        ).metadata()
    with pytest.raises(SecurityError, match=r"can't trust 127\.0\.0\.1:[0-9]+: "):
        Cluster(secured.tls, timeout_s=20, security=Security(Tls())).metadata()
    by_name = secured.tls.replace("127.0.0.1", "localhost")
    tls = Tls(authorities_file=str(secured.folder / "ca.crt"))
    with pytest.raises(SecurityError, match="Hostname mismatch"):
        Cluster(by_name, timeout_s=20, security=Security(tls)).metadata()
    unchecked = Tls(authorities_file=str(secured.folder / "ca.crt"), check_hostname=False)
    assert Cluster(by_name, timeout_s=20, security=Security(unchecked)).metadata().brokers


def test_tls_to_a_port_without_tls_says_so(secured: Secured) -> None:
    with pytest.raises(SecurityError, match=r"does this port use TLS\?"):
        Cluster(secured.server.bootstrap, timeout_s=20, security=Security(Tls())).metadata()


def test_certificates_that_can_not_be_read_are_named(tmp_path: Path, secured: Secured) -> None:
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed")
    for tls in (
        Tls(authorities_file=str(tmp_path / "missing.pem")),
        Tls(authorities_file=str(tmp_path / "store.jks")),
        Tls(certificate_file=str(tmp_path / "store.jks")),
    ):
        with pytest.raises(SecurityError, match=r"certificates can't be used .*(missing.pem|store.jks)"):
            Cluster(secured.tls, timeout_s=20, security=Security(tls)).metadata()


def test_headrace_which_has_no_sasl_says_so(headrace_shared_server) -> None:
    with pytest.raises(SecurityError, match="does not support SASL"):
        Cluster(headrace_shared_server.kafka, security=Security(sasl=Sasl("PLAIN", "a", "b"))).metadata()
