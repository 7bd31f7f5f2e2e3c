"""How a connection is made safe: TLS below the protocol, SASL (KIP-43, KIP-152) as its first requests.

A `Security` is a value: it can be a key, and it travels to other processes. Passwords are in none of its texts. A TLS context
is made from it once for each process, since reading certificates takes time.

Mechanisms: PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from headrace.client.kafka.errors import ClientError

if TYPE_CHECKING:
    import socket
    import ssl

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_LEAST_ITERATIONS = 4096  # RFC 5802 section 5.1; Kafka's own clients refuse fewer, too
_MOST_ITERATIONS = 10_000_000  # a server could keep us busy for ever


class SecurityError(ClientError):
    """The two sides could not agree who they are, or could not talk in secret."""


@dataclass(frozen=True, slots=True)
class Tls:
    """What we trust and who we are. Authorities are those of the operating system unless some are named; names are files, and
    the texts are PEM."""

    authorities_file: str | None = None
    authorities_pem: str | None = None
    certificate_file: str | None = None  # our chain, and our key unless that has a file of its own
    certificate_pem: str | None = None
    key_file: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class Sasl:
    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """Without TLS everything can be read on the way; without SASL the server does not know who we are."""

    tls: Tls | None = None
    sasl: Sasl | None = None


NO_SECURITY = Security()


@lru_cache(maxsize=16)
def tls_context(tls: Tls) -> ssl.SSLContext:
    import ssl  # only those who use TLS wait for it

    try:
        context = ssl.create_default_context(cafile=tls.authorities_file, cadata=tls.authorities_pem)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = tls.check_hostname
        if tls.certificate_file is not None or tls.certificate_pem is not None:
            _load_own(context, tls)
    except (OSError, ValueError) as error:
        files = ", ".join(name for name in (tls.authorities_file, tls.certificate_file, tls.key_file) if name) or "PEM text"
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise SecurityError(f"certificates can't be used ({files}): {str(reason).lower().replace('_', ' ')}") from None
    return context


def _load_own(context: ssl.SSLContext, tls: Tls) -> None:
    # Without a password OpenSSL would ask for one on the terminal.
    password = tls.key_password if tls.key_password is not None else ""
    if tls.certificate_pem is None:
        assert tls.certificate_file is not None
        context.load_cert_chain(tls.certificate_file, tls.key_file, password)
        return
    import tempfile

    # OpenSSL's interface in Python takes files only. This one is ours alone to read, and is gone as soon as it was read.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
        both.write(f"{tls.key_pem or ''}\n{tls.certificate_pem}\n")
        both.flush()
        context.load_cert_chain(both.name, tls.key_file, password)


def start_tls(plain: socket.socket, tls: Tls, address: str, host: str) -> ssl.SSLSocket:
    """The socket's timeout holds for the handshake."""
    import ssl

    try:
        return tls_context(tls).wrap_socket(plain, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise SecurityError(f"can't trust {address}: {error.verify_message}") from None
    except TimeoutError:
        raise SecurityError(f"{address} did not answer the TLS handshake; does this port use TLS?") from None
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or "the connection was closed"
        words = str(reason).lower().replace("_", " ")
        raise SecurityError(f"no TLS with {address}: {words}; does this port use TLS?") from None


def sasl_steps(sasl: Sasl, nonce: str | None = None) -> Generator[bytes, bytes, None]:
    """The client's side of the exchange: yields what is sent, is sent what comes back."""
    if sasl.mechanism == "PLAIN":
        if "\0" in sasl.username or "\0" in sasl.password:
            raise SecurityError("PLAIN can't carry a user name or a password with a zero byte in it")
        yield f"\0{sasl.username}\0{sasl.password}".encode()
        return
    if sasl.mechanism not in _SCRAM_HASHES:
        raise SecurityError(f"SASL mechanism {sasl.mechanism} is not supported: use {', '.join(MECHANISMS)}")
    yield from _scram(sasl, _SCRAM_HASHES[sasl.mechanism], nonce or secrets.token_urlsafe(24))


def _scram(sasl: Sasl, kind: str, nonce: str) -> Generator[bytes, bytes, None]:
    """RFC 5802 section 3. The server proves at the end that it knows the password, too."""
    username = sasl.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={username},r={nonce}"
    answer = _fields((yield f"n,,{first}".encode()))
    both_nonces, iterations = answer.get("r", ""), answer.get("i", "")
    if not both_nonces.startswith(nonce) or len(both_nonces) == len(nonce):
        raise SecurityError("the server did not take up our part of the SCRAM exchange")
    if not iterations.isdigit() or not _LEAST_ITERATIONS <= int(iterations) <= _MOST_ITERATIONS:
        raise SecurityError(f"the server asks for '{iterations}' SCRAM iterations, which is not safe or not sensible")
    try:
        salt = base64.b64decode(answer.get("s", ""), validate=True)
    except ValueError:
        raise SecurityError("the server's SCRAM salt can't be read") from None
    salted = hashlib.pbkdf2_hmac(kind, sasl.password.encode(), salt, int(iterations))
    last = f"c=biws,r={both_nonces}"
    said = f"{first},{_text(answer)},{last}".encode()
    client_key = hmac.digest(salted, b"Client Key", kind)
    signature = hmac.digest(hashlib.new(kind, client_key).digest(), said, kind)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    outcome = _fields((yield f"{last},p={base64.b64encode(proof).decode()}".encode()))
    if "e" in outcome:
        raise SecurityError(f"the server refused the password of user '{sasl.username}': {outcome['e']}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", kind), said, kind)
    if not hmac.compare_digest(base64.b64encode(expected).decode(), outcome.get("v", "")):
        raise SecurityError("the server could not prove that it knows the password; this may be an impostor")


class _Answer(dict[str, str]):
    """The attributes of a SCRAM message, and the message itself, which is signed."""

    text = ""


def _fields(message: bytes) -> _Answer:
    try:
        text = message.decode()
    except UnicodeDecodeError:
        raise SecurityError("the server's SCRAM message can't be read") from None
    answer = _Answer(part.split("=", 1) for part in text.split(",") if "=" in part)
    answer.text = text
    return answer


def _text(answer: _Answer) -> str:
    return answer.text
