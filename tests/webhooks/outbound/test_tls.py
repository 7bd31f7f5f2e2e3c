"""TLS: the certificate must be for the name in the URL, whatever address is connected to."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.webhooks.outbound.conftest import OK, PUBLIC, Names, Watched, endpoint, request_of

from headrace.webhooks.outbound import Answer, Outbound, Unreachable, check_url

pytestmark = pytest.mark.usefixtures("loops")

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates in `folder`; its own is `ca.pem`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "An authority for tests")])
        builder = self._builder(self._name, self._key, NOW + DAY).add_extension(x509.BasicConstraints(True, 0), critical=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder(self._name, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(NOW - 2 * DAY)
            .not_valid_after(until)
        )

    def server(self, *names: str, until: datetime.datetime = NOW + DAY) -> ssl.SSLContext:
        """What a server uses whose certificate has these names; `seen` of it has the names that clients asked for."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives: list[x509.GeneralName] = []
        for name in names:
            try:
                alternatives.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                alternatives.append(x509.DNSName(name))
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "A server for tests")])
        builder = self._builder(subject, key, until).add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        file = self._folder / "server.pem"
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
            + builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        self.seen: list[str | None] = []
        context.sni_callback = lambda _, name, __: self.seen.append(name)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def post(context: ssl.SSLContext, url: str, ca_file: Path | None, names: Names, network: Watched | None = None) -> Answer:
    async def whole() -> Answer:
        async with asyncio.timeout(30), endpoint(ssl=context) as port:
            if network is not None:
                network.port = port
            client = Outbound(resolver=names, network=network, allow=["127.0.0.0/8"], ca_file=str(ca_file) if ca_file else None)
            try:
                return await client.post(check_url(url.replace("PORT", str(port))), [], b"{}", timeout_s=10)
            finally:
                client.close()

    return asyncio.run(whole())


def test_the_pinned_address_is_connected_to_with_the_name_of_the_url(authority):
    network = Watched()
    names = Names().set("hook.example", PUBLIC)
    answer = post(authority.server("hook.example"), "https://hook.example/", authority.file, names, network)
    assert (answer.status, answer.address) == (200, PUBLIC)
    assert network.connected == [(PUBLIC, 443, "hook.example")]
    assert authority.seen == ["hook.example"]


def test_a_certificate_for_another_name_is_refused(authority):
    names = Names().set("hook.example", PUBLIC)
    with pytest.raises(Unreachable, match=r"hook\.example") as caught:
        post(authority.server("other.example"), "https://hook.example/", authority.file, names, Watched())
    assert caught.value.kind == "tls"


def test_a_certificate_for_the_address_is_not_one_for_the_name(authority):
    names = Names().set("hook.example", PUBLIC)
    with pytest.raises(Unreachable):
        post(authority.server(PUBLIC, "127.0.0.1"), "https://hook.example/", authority.file, names, Watched())


def test_a_certificate_of_an_authority_that_nobody_trusts_is_refused(authority):
    names = Names().set("hook.example", PUBLIC)
    with pytest.raises(Unreachable) as caught:
        post(authority.server("hook.example"), "https://hook.example/", None, names, Watched())
    assert caught.value.kind == "tls"


def test_a_certificate_that_has_expired_is_refused(authority):
    names = Names().set("hook.example", PUBLIC)
    with pytest.raises(Unreachable, match="expired"):
        post(authority.server("hook.example", until=NOW - DAY), "https://hook.example/", authority.file, names, Watched())


def test_an_allowed_loopback_address_works_with_a_certificate_for_it(authority):
    answer = post(authority.server("127.0.0.1"), "https://127.0.0.1:PORT/", authority.file, Names())
    assert (answer.status, answer.address) == (200, "127.0.0.1")
    assert authority.seen == [None]  # an address is no server name (RFC 6066, section 3)


def test_a_name_that_is_allowed_to_lead_to_loopback_works(authority):
    names = Names().set("hook.inside.example", "127.0.0.1")
    answer = post(authority.server("*.inside.example"), "https://hook.inside.example:PORT/", authority.file, names)
    assert (answer.status, answer.address) == (200, "127.0.0.1")


def test_plain_text_where_tls_should_be_is_an_error_of_tls():
    async def serve(reader, writer):
        writer.write(b"HTTP/1.1 400 This is not TLS\r\n\r\n")
        await reader.read()

    async def whole() -> None:
        async with asyncio.timeout(30), endpoint(serve) as port:
            await Outbound(allow=["127.0.0.1"]).post(check_url(f"https://127.0.0.1:{port}/"), [], b"", timeout_s=10)

    with pytest.raises(Unreachable) as caught:
        asyncio.run(whole())
    assert caught.value.kind == "tls"


def test_connections_with_tls_are_used_again(authority):
    async def whole() -> None:
        connections = 0

        async def serve(reader, writer):
            nonlocal connections
            connections += 1
            while True:
                await request_of(reader)
                writer.write(OK)

        async with asyncio.timeout(30), endpoint(serve, ssl=authority.server("localhost")) as port:
            client = Outbound(allow=["localhost"], ca_file=str(authority.file))
            for _ in range(3):
                await client.post(check_url(f"https://localhost:{port}/"), [], b"x" * 100_000, timeout_s=10)
            client.close()
        assert connections == 1

    asyncio.run(whole())


def test_a_file_of_certificates_that_can_not_be_read_is_said(tmp_path):
    async def whole() -> None:
        client = Outbound(ca_file=str(tmp_path / "none.pem"), resolver=Names().set("hook.example", PUBLIC), network=Watched())
        await client.post(check_url("https://hook.example/"), [], b"", timeout_s=10)

    with pytest.raises(Unreachable, match=r"none\.pem"):
        asyncio.run(whole())
