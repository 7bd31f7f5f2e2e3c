"""Signatures, made by botocore: with credentials configured they are verified, in both forms, with AWS's errors."""

from __future__ import annotations

import time
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from tests.kinesis.conftest import client_at

from headrace.kinesis.errors import KinesisError
from headrace.kinesis.identity import parse_credential
from headrace.kinesis.signature import Credential, Verifier
from headrace.testing import HeadraceServer

KEY, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
OTHER, OTHER_SECRET, OTHER_ACCOUNT = "AKIDOTHER", "other/secret", "222222222222"
DOES_NOT_MATCH = (
    "InvalidSignatureException",
    "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and "
    "signing method. Consult the service documentation for details.",
)
UNKNOWN = ("UnrecognizedClientException", "The security token included in the request is invalid.")


# --- through a server


@pytest.fixture(scope="module")
def guarded():
    credentials = f"{KEY}:{SECRET},{OTHER}:{OTHER_SECRET}:{OTHER_ACCOUNT}"
    with HeadraceServer(durability="memory", settings={"kinesis.credentials": credentials}) as server:
        yield server.kinesis


def test_who_has_the_secret_is_let_in_and_has_the_account_of_the_credential(guarded):
    client = client_at(guarded, KEY, secret=SECRET)
    client.create_stream(StreamName="signed", ShardCount=1)
    client.put_record(StreamName="signed", Data=b"\x00\xff", PartitionKey="k")
    arn = client.describe_stream_summary(StreamName="signed")["StreamDescriptionSummary"]["StreamARN"]
    assert arn == "arn:aws:kinesis:eu-west-1:123456789012:stream/signed"
    other = client_at(guarded, OTHER, secret=OTHER_SECRET)
    assert other.list_streams()["StreamNames"] == []
    other.create_stream(StreamName="signed", ShardCount=1)
    arn = other.describe_stream_summary(StreamName="signed")["StreamDescriptionSummary"]["StreamARN"]
    assert arn == f"arn:aws:kinesis:eu-west-1:{OTHER_ACCOUNT}:stream/signed"


def test_who_has_not_is_refused(guarded, refused):
    assert refused(client_at(guarded, KEY, secret="wrong").list_streams) == DOES_NOT_MATCH
    assert refused(client_at(guarded, "AKIDUNKNOWN", secret=SECRET).list_streams) == UNKNOWN
    assert refused(client_at(guarded, KEY, secret=SECRET, aws_session_token="token").list_streams) == UNKNOWN
    put = client_at(guarded, KEY, secret="wrong").put_record
    assert refused(put, StreamName="signed", Data=b"x", PartitionKey="k") == DOES_NOT_MATCH


def test_who_does_not_sign_is_refused(guarded, ask):
    assert ask("ListStreams", {}, at=guarded).error == (
        400,
        "MissingAuthenticationTokenException",
        "Missing Authentication Token",
    )
    assert ask("ListStreams", {}, at=guarded, Authorization="Basic Z3Vlc3Q6Z3Vlc3Q=").error[1] == "IncompleteSignatureException"
    incomplete = "AWS4-HMAC-SHA256 Credential=a/b/c/d/e"
    assert ask("ListStreams", {}, at=guarded, Authorization=incomplete).error == (
        400,
        "IncompleteSignatureException",
        "Authorization header requires 'Signature' parameter. Authorization header requires 'SignedHeaders' parameter. "
        "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. "
        f"Authorization={incomplete}",
    )


def test_the_caller_is_told_its_account_only_when_it_signs(guarded, ask):
    import boto3

    given = {"endpoint_url": guarded, "region_name": "eu-west-1", "aws_access_key_id": OTHER}
    assert boto3.client("sts", aws_secret_access_key=OTHER_SECRET, **given).get_caller_identity()["Account"] == OTHER_ACCOUNT
    form = "Action=GetCallerIdentity&Version=2011-06-15"
    assert ask(None, form, content_type="application/x-www-form-urlencoded", at=guarded).status == 403


# --- the verifier by itself


class Exchange(SimpleNamespace):
    def header(self, name):
        return next((value for found, value in self.headers if found == name), None)


def signed(signer=SigV4Auth, url="http://127.0.0.1:4567/", body=b"{}", service="kinesis", headers=None, **more):
    request = AWSRequest("POST", url, data=body, headers={"X-Amz-Target": "Kinesis_20131202.ListStreams", **(headers or {})})
    request.headers["Host"] = urlsplit(url).netloc
    signer(Credentials(KEY, SECRET), service, "eu-west-1", **more).add_auth(request)
    prepared = request.prepare()
    target = prepared.url.partition("4567")[2]
    got = [
        (name.lower().encode(), value if isinstance(value, bytes) else value.encode())
        for name, value in prepared.headers.items()
    ]
    return Exchange(method=b"POST", target=target.encode(), headers=got)


def verifier(now=time.time):
    return Verifier([Credential(KEY, SECRET, "1" * 12)], now)


def refusal(exchange, body=b"{}", at=time.time):
    with pytest.raises(KinesisError) as caught:
        verifier(at).verify(exchange, body, "kinesis")
    return caught.value.code, caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:4567/",
        "http://127.0.0.1:4567",
        "http://127.0.0.1:4567/some/path",
        "http://127.0.0.1:4567/?b=2&a=1&a=0&c",
    ],
)
def test_a_signature_in_the_header_is_verified(url):
    credential, region = verifier().verify(signed(url=url), b"{}", "kinesis")
    assert (credential.account, region) == ("1" * 12, "eu-west-1")


def test_a_signature_in_the_query_is_verified_for_as_long_as_it_holds():
    exchange = signed(SigV4QueryAuth, expires=3000)  # botocore signs an empty body
    assert verifier().verify(exchange, b"", "kinesis")[1] == "eu-west-1"
    assert verifier(lambda: time.time() + 2900).verify(exchange, b"", "kinesis")
    assert refusal(exchange, b"", at=lambda: time.time() + 3100)[0] == "InvalidSignatureException"


def test_a_query_with_a_part_missing_is_incomplete():
    exchange = signed(SigV4QueryAuth)
    path, _, query = exchange.target.decode().partition("?")
    kept = [part for part in query.split("&") if not part.startswith("X-Amz-SignedHeaders")]
    exchange.target = f"{path}?{'&'.join(kept)}".encode()
    assert refusal(exchange) == (
        "IncompleteSignatureException",
        "AWS query-string parameters must include 'X-Amz-SignedHeaders'. Re-examine the query-string parameters.",
    )


def test_both_forms_at_once_are_refused():
    exchange = signed(SigV4QueryAuth)
    exchange.headers.append((b"authorization", b"AWS4-HMAC-SHA256 x"))
    assert refusal(exchange) == (
        "InvalidSignatureException",
        "Found both 'X-Amz-Algorithm' as a query-string param and 'Authorization' as HTTP header.",
    )


def test_what_was_changed_behind_the_signature_is_refused():
    assert refusal(signed(), body=b'{"Limit": 1}') == DOES_NOT_MATCH
    changed = signed()
    changed.headers = [
        (name, b"Kinesis_20131202.DeleteStream" if name == b"x-amz-target" else value) for name, value in changed.headers
    ]
    assert refusal(changed) == DOES_NOT_MATCH
    moved = signed()
    moved.target = b"/elsewhere"
    assert refusal(moved) == DOES_NOT_MATCH


def test_the_target_must_be_signed():
    exchange = signed()
    exchange.headers = [
        (name, value.replace(b";x-amz-target", b"") if name == b"authorization" else value) for name, value in exchange.headers
    ]
    assert refusal(exchange) == (
        "InvalidSignatureException",
        "'x-amz-target' must be a 'SignedHeader' in the AWS Authorization.",
    )


def test_an_unsigned_payload_is_taken_when_that_was_signed():
    exchange = signed(headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})
    assert verifier().verify(exchange, b"anything", "kinesis")
    added = signed()
    added.headers.append((b"x-amz-content-sha256", b"UNSIGNED-PAYLOAD"))
    assert refusal(added, body=b"anything") == DOES_NOT_MATCH


def test_clocks_may_be_five_minutes_apart():
    exchange = signed()
    now = time.time()
    assert verifier(lambda: now + 290).verify(exchange, b"{}", "kinesis")
    assert verifier(lambda: now - 290).verify(exchange, b"{}", "kinesis")
    code, text = refusal(exchange, at=lambda: now + 400)
    assert (code, text[:18]) == ("InvalidSignatureException", "Signature expired:")
    assert text.endswith("- 5 min.)")
    code, text = refusal(exchange, at=lambda: now - 400)
    assert (code, text[:26]) == ("InvalidSignatureException", "Signature not yet current:")


def test_a_signature_for_another_service_is_refused():
    assert refusal(signed(service="dynamodb")) == (
        "InvalidSignatureException",
        "Credential should be scoped to correct service: 'kinesis'. ",
    )


@pytest.mark.parametrize(
    "header",
    [
        b"AWS4-HMAC-SHA256",
        b"AWS4-HMAC-SHA256 ",
        b"AWS4-HMAC-SHA256 Credential=,SignedHeaders=,Signature=",
        b"AWS4-HMAC-SHA256 Credential=a/b,SignedHeaders=host,Signature=x",
        b"AWS4-HMAC-SHA256 Credential=" + b"/" * 60_000 + b",SignedHeaders=host,Signature=x",
        b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261116/r/kinesis/aws4_request,SignedHeaders=a;a;host,Signature=x",
        b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261116/r/kinesis/aws4_request,SignedHeaders="
        + b"h;" * 9000
        + b",Signature=x",
        b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261116/r/kinesis/aws4_request,SignedHeaders=host,Signature=\xff",
        b"AWS4-ECDSA-P256-SHA256 Credential=a/b/c/d,SignedHeaders=host,Signature=x",
        b"\xff\xfe",
    ],
)
def test_nonsense_in_place_of_a_signature_is_refused(header):
    exchange = signed()
    exchange.headers = [(name, header if name == b"authorization" else value) for name, value in exchange.headers]
    assert refusal(exchange)[0] in ("IncompleteSignatureException", "InvalidSignatureException")


def test_credentials_are_read_with_and_without_an_account():
    assert parse_credential("AKID:SECRET", "1" * 12).account == "1" * 12
    assert parse_credential("AKID:SECRET:222222222222", "1" * 12).account == "2" * 12
    assert parse_credential("333333333333:SECRET", "1" * 12).account == "3" * 12
    assert "SECRET" not in repr(parse_credential("AKID:SECRET", "1" * 12))
    for wrong in ("AKID", "AKID:", ":SECRET", "AKID:SECRET:12"):
        with pytest.raises(KinesisError):
            parse_credential(wrong, "1" * 12)
