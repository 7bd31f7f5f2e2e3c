"""The first requests on a connection with SASL: which mechanism (SaslHandshake), then its steps (SaslAuthenticate)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.client.kafka.errors import Unsupported
from headrace.client.kafka.security import Sasl, SecurityError, sasl_steps
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headrace.kafka.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from headrace.client.kafka.connection import Connection


def authenticate(connection: Connection, sasl: Sasl, deadline: float) -> float:
    """Says who we are. Returns for how many seconds that holds (KIP-368); 0 is for as long as the connection lasts."""
    try:
        offered = connection.call(SaslHandshakeRequest(mechanism=sasl.mechanism), SaslHandshakeResponse, deadline)
    except Unsupported:
        raise SecurityError(f"{connection.address} does not support SASL; use security.protocol PLAINTEXT or SSL") from None
    if offered.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        offers = ", ".join(sorted(offered.mechanisms)) or "none"
        raise SecurityError(f"{connection.address} does not offer SASL mechanism {sasl.mechanism}, but {offers}")
    if offered.error_code != ErrorCode.NONE:
        raise SecurityError(f"{connection.address} does not take SASL here: does this port use it?")
    steps = sasl_steps(sasl)
    message, lifetime_ms = next(steps), 0
    while True:
        answer = connection.call(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse, deadline)
        if answer.error_code != ErrorCode.NONE:
            # The server's text is not passed on: it may repeat what it was sent.
            raise SecurityError(
                f"{connection.address} refused user '{sasl.username}' with {sasl.mechanism}: wrong name or password"
            )
        lifetime_ms = answer.session_lifetime_ms
        try:
            message = steps.send(answer.auth_bytes)
        except StopIteration:
            return lifetime_ms / 1000
