"""Security settings of Kafka's clients, given as `kafka.NAME`, into what our client understands.

The names are those of Kafka's Java clients; for user, password and files those of librdkafka, which are shorter, will do, too.
Certificates and keys are PEM: files on every machine that runs a part of the query, or text in the option itself. A setting
that could not be honoured is refused, never passed over, since a connection would be less safe than its owner thinks.
"""

from __future__ import annotations

import re

from headrace.client.kafka.security import MECHANISMS, NO_SECURITY, Sasl, Security, Tls
from headrace.spark.options import BadOption, Options

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_SASL_NAMES = ("sasl.mechanism", "sasl.jaas.config", "sasl.username", "sasl.password")
_TLS_NAMES = (
    "ssl.truststore.location",
    "ssl.truststore.certificates",
    "ssl.truststore.type",
    "ssl.ca.location",
    "ssl.keystore.location",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.type",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.endpoint.identification.algorithm",
)
REFUSED = {
    "ssl.truststore.password": "certificates in PEM have no password; kafka.ssl.truststore.location is a PEM file",
    "ssl.keystore.password": "the password of a PEM key is kafka.ssl.key.password",
    "ssl.cipher.suites": "the ciphers are those of Python's defaults",
    "ssl.enabled.protocols": "TLS 1.2 and newer are always used, older ones never",
    "ssl.engine.factory.class": "there is no Java client here that could load it",
    "sasl.client.callback.handler.class": "there is no Java client here that could load it",
    "security.providers": "there is no Java client here that could load them",
}
REFUSED_BEGINNINGS = {
    "sasl.kerberos.": f"Kerberos is not there, but {', '.join(MECHANISMS)} are",
    "sasl.oauthbearer.": f"OAUTHBEARER is not there, but {', '.join(MECHANISMS)} are",
    "sasl.login.": "user and password are sent as they are; there is no login to keep fresh",
}
WITHOUT_EFFECT = (
    "ssl.protocol",
    "ssl.provider",
    "ssl.keymanager.algorithm",
    "ssl.trustmanager.algorithm",
    "ssl.secure.random.implementation",
)
_MODULES = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
_JAAS = re.compile(
    r"\s*([\w.]+)\s+(?:required|requisite|sufficient|optional)\b((?:\s+\w[\w.]*\s*=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;]+))*)\s*;\s*"
)
_JAAS_PAIR = re.compile(r"(\w[\w.]*)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|([^\s;]+))")


def read_security(options: Options) -> Security:
    protocol = options.choice("kafka.security.protocol", PROTOCOLS, "PLAINTEXT")
    for name, reason in REFUSED.items():
        if options.given(f"kafka.{name}"):
            raise BadOption(f"option kafka.{name} is not supported: {reason}")
    for beginning, reason in REFUSED_BEGINNINGS.items():
        for name in options.beginning_with(f"kafka.{beginning}"):
            raise BadOption(f"option {name} is not supported: {reason}")
    for name in WITHOUT_EFFECT:
        options.text(f"kafka.{name}")
    given = [name for name in (*_SASL_NAMES, *_TLS_NAMES) if options.given(f"kafka.{name}")]
    for name in given:
        wanted = "SASL" if name in _SASL_NAMES else "SSL"
        if wanted not in protocol:
            other = "SASL_SSL or SASL_PLAINTEXT" if wanted == "SASL" else "SSL or SASL_SSL"
            raise BadOption(
                f"option kafka.{name} would not be used, since kafka.security.protocol is {protocol}: set that to {other}"
            )
    if protocol == "PLAINTEXT":
        return NO_SECURITY
    tls = _tls(options) if protocol.endswith("SSL") else None
    sasl = _sasl(options) if protocol.startswith("SASL") else None
    return Security(tls, sasl)


def _tls(options: Options) -> Tls:
    for store in ("truststore", "keystore"):
        kind = options.text(f"kafka.ssl.{store}.type")
        if kind is not None and kind.upper() != "PEM":
            raise BadOption(
                f"option kafka.ssl.{store}.type is {kind}: only PEM is read; 'keytool -importkeystore' and 'openssl pkcs12' "
                "turn a Java store into PEM"
            )
    algorithm = options.text("kafka.ssl.endpoint.identification.algorithm")
    if algorithm is not None and algorithm.lower() not in ("", "https", "none"):
        raise BadOption("option kafka.ssl.endpoint.identification.algorithm: use https, or an empty text for no check of names")
    return Tls(
        authorities_file=_one_of(options, "kafka.ssl.truststore.location", "kafka.ssl.ca.location"),
        authorities_pem=options.text("kafka.ssl.truststore.certificates"),
        certificate_file=_one_of(options, "kafka.ssl.keystore.location", "kafka.ssl.certificate.location"),
        certificate_pem=options.text("kafka.ssl.keystore.certificate.chain"),
        key_file=options.text("kafka.ssl.key.location"),
        key_pem=options.text("kafka.ssl.keystore.key"),
        key_password=options.text("kafka.ssl.key.password"),
        check_hostname=algorithm is None or algorithm.lower() == "https",
    )


def _one_of(options: Options, name: str, other: str) -> str | None:
    first, second = options.text(name), options.text(other)
    if first is not None and second is not None:
        raise BadOption(f"options {name} and {other} mean the same: give one of them")
    return first if first is not None else second


def _sasl(options: Options) -> Sasl:
    mechanism = options.text("kafka.sasl.mechanism")
    jaas = options.text("kafka.sasl.jaas.config")
    username, password = options.text("kafka.sasl.username"), options.text("kafka.sasl.password")
    if mechanism is None:
        raise BadOption(f"option kafka.sasl.mechanism is missing: use {', '.join(MECHANISMS)}")
    mechanism = mechanism.upper()
    if mechanism not in MECHANISMS:
        raise BadOption(f"option kafka.sasl.mechanism is {mechanism}, which is not supported: use {', '.join(MECHANISMS)}")
    if jaas is not None:
        if username is not None or password is not None:
            raise BadOption("give kafka.sasl.jaas.config, or kafka.sasl.username and kafka.sasl.password, not both")
        username, password = _login(jaas, mechanism)
    if username is None or password is None:
        raise BadOption("user and password are missing: give kafka.sasl.jaas.config, or kafka.sasl.username and .password")
    return Sasl(mechanism, username, password)


def _login(jaas: str, mechanism: str) -> tuple[str, str]:
    """User and password in a JAAS configuration of one login module. No error repeats it: it has the password."""
    found = _JAAS.fullmatch(jaas)
    if found is None:
        example = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";'
        raise BadOption(f"option kafka.sasl.jaas.config can't be read: use {example}")
    module = found[1].rsplit(".", 1)[-1]
    if mechanism not in _MODULES.get(module, ()):
        modules = " or ".join(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        raise BadOption(f"option kafka.sasl.jaas.config names {module}, but {mechanism} needs {modules}")
    pairs = {
        pair[1].lower(): re.sub(r"\\(.)", r"\1", pair[2]) if pair[2] is not None else pair[3]
        for pair in _JAAS_PAIR.finditer(found[2])
    }
    if "username" not in pairs or "password" not in pairs:
        raise BadOption("option kafka.sasl.jaas.config has no username or no password")
    return pairs["username"], pairs["password"]
