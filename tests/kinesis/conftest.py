"""A Kinesis server for all of these tests, and clients of it: each test has an account of its own, so it finds no streams."""

from __future__ import annotations

import http.client
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from headrace.testing import HeadraceServer

REGION = "eu-west-1"
JSON, CBOR = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1"
_accounts = itertools.count(200_000_000_001)


def client_at(endpoint: str, account: str, region: str = REGION, secret: str = "any", **more: Any) -> Any:
    config = Config(retries={"max_attempts": 0}, read_timeout=20, connect_timeout=5)
    return boto3.client(
        "kinesis",
        endpoint_url=endpoint,
        region_name=region,
        aws_access_key_id=account,
        aws_secret_access_key=secret,
        config=config,
        **more,
    )


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str, str | None]:
        found = self.json
        return self.status, found["__type"], found.get("message", found.get("Message"))


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    with HeadraceServer(durability="memory") as server:
        yield server.kinesis


@pytest.fixture
def account() -> str:
    return str(next(_accounts))


@pytest.fixture
def client(endpoint: str, account: str) -> Iterator[Any]:
    made = client_at(endpoint, account)
    yield made
    while names := made.list_streams()["StreamNames"]:
        for name in names:
            made.delete_stream(StreamName=name, EnforceConsumerDeletion=True)
    made.close()


@pytest.fixture
def refused() -> Callable[..., tuple[str, str]]:
    """Calls, and returns type and text of the error."""

    def call(operation: Callable[..., Any], **given: Any) -> tuple[str, str]:
        with pytest.raises(ClientError) as caught:
            operation(**given)
        error = caught.value.response["Error"]
        return error["Code"], error["Message"]

    return call


@pytest.fixture
def ask(endpoint: str) -> Callable[..., Answer]:
    """One request, as it stands."""

    def send(
        target: str | None = None,
        body: bytes | str | dict[str, Any] = b"{}",
        *,
        content_type: str | None = JSON,
        method: str = "POST",
        path: str = "/",
        at: str = endpoint,
        **headers: str,
    ) -> Answer:
        place = urlsplit(at)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=20)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if target is not None:
            sent["X-Amz-Target"] = target if "." in target else f"Kinesis_20131202.{target}"
        if content_type is not None:
            sent["Content-Type"] = content_type
        if isinstance(body, dict):
            body = json.dumps(body)
        try:
            connection.request(method, path, body.encode() if isinstance(body, str) else body, sent)
            answer = connection.getresponse()
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    return send


@pytest.fixture
def signed_by() -> Callable[..., str]:
    """An Authorization header that names an account and a region; nobody verifies it unless credentials are configured."""

    def header(account: str, region: str = REGION) -> str:
        scope = f"{account}/20261116/{region}/kinesis/aws4_request"
        return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature=0"

    return header
