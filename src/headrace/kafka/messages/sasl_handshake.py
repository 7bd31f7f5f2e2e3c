"""SaslHandshake: a client names the SASL mechanism it wants to use."""

from __future__ import annotations

from headrace.kafka.codec.fields import STRING, array, int16, string
from headrace.kafka.codec.schema import Request, Response


class SaslHandshakeRequest(Request, api_key=17, versions=(0, 1)):
    mechanism: str = string()


class SaslHandshakeResponse(Response, api_key=17, versions=(0, 1)):
    error_code: int = int16()
    mechanisms: list[str] = array(STRING)
