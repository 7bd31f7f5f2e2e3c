"""Signature version 4, held to what botocore makes of the same request."""

from __future__ import annotations

from datetime import UTC, datetime

import botocore.auth
import botocore.credentials
import pytest
from botocore.awsrequest import AWSRequest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.kinesis.signing import Credentials, signed_headers

AT = datetime(2026, 3, 1, 9, 30, 5, tzinfo=UTC)
HEADERS = {"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "Kinesis_20131202.ListStreams"}


def by_botocore(credentials: Credentials, region: str, host: str, body: bytes, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: AT.replace(tzinfo=None))
    theirs = botocore.credentials.Credentials(credentials.access_key, credentials.secret_key, credentials.session_token)
    request = AWSRequest("POST", f"http://{host}/", headers=dict(HEADERS), data=body)
    botocore.auth.SigV4Auth(theirs, "kinesis", region).add_auth(request)
    return request.headers["Authorization"]


@pytest.mark.parametrize("token", [None, "a session token"])
@pytest.mark.parametrize("host", ["127.0.0.1:4567", "kinesis.eu-central-1.amazonaws.com"])
def test_the_signature_is_the_one_that_botocore_makes(host: str, token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    credentials = Credentials("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", token)
    body = b'{"Limit": 5}'
    ours = signed_headers(credentials, "eu-central-1", host, HEADERS, body, AT)
    assert ours["Authorization"] == by_botocore(credentials, "eu-central-1", host, body, monkeypatch)
    assert ours["X-Amz-Date"] == "20260301T093005Z"
    assert ours.get("X-Amz-Security-Token") == token


@given(st.binary(max_size=200), st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20))
def test_every_body_and_secret_is_signed_as_botocore_does(body: bytes, secret: str) -> None:
    credentials = Credentials("AKID", secret)
    with pytest.MonkeyPatch.context() as patch:
        expected = by_botocore(credentials, "us-east-1", "localhost:1", body, patch)
    assert signed_headers(credentials, "us-east-1", "localhost:1", HEADERS, body, AT)["Authorization"] == expected


def test_secrets_do_not_show_in_a_traceback() -> None:
    assert repr(Credentials("AKID", "hush", "hush, too")) == "Credentials(access_key='AKID')"
