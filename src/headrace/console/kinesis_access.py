"""The Kinesis API of the server that is shown: AWS JSON 1.1 over HTTP. Nothing of NiceGUI is here.

Its address is what GET /v1/overview calls `kinesis`; where the server names an address that only means something to itself
(0.0.0.0), the host is that of its HTTP address. Requests are not signed, which the server takes where no `kinesis.credentials`
are set, and then they are for its own account and region. With a `region`, or where the server wants signatures, they are
signed with the name and password of whoever is logged in.

In read-only mode nothing leaves that does not begin with `Describe`, `List` or `Get`.

Bounds: those of `access`; `SCANNED` names of streams are looked through for a text.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from headrace.client.kinesis.signing import Credentials, signed_headers
from headrace.console.access import Access, Answer, ServerError
from headrace.console.sharing import LOOKING

SCANNED = 10_000
LOOKED_AT = 200  # of those at a time: the server lists them in one turn
_TARGET = "Kinesis_20131202."
_CONTENT_TYPE = "application/x-amz-json-1.1"
_LOOKING = ("Describe", "List", "Get")
_WANTS_SIGNATURE = ("MissingAuthenticationTokenException", "IncompleteSignatureException")
_NOT_THERE = "ResourceNotFoundException"  # which Kinesis answers with 400
_ANYWHERE = ("0.0.0.0", "::")
_DEFAULT_REGION = "us-east-1"
Json = dict[str, Any]


class KinesisAccess:
    def __init__(self, access: Access, region: str = "") -> None:
        self._access = access
        self._region = region
        self._signs = bool(region)
        self._url: str | None = None

    async def call(self, operation: str, parameters: Json) -> Json:
        """Raises ServerError."""
        if self._access.read_only and not operation.startswith(_LOOKING):
            raise ServerError(403, "this console is read-only")
        url = self._url = self._url or await self._found()
        try:
            return await self._send(url, operation, parameters)
        except _Unsigned:
            self._signs = True
            return await self._send(url, operation, parameters)
        finally:
            if not operation.startswith(_LOOKING):
                self._access.server.answers.forget()

    async def streams(self, text: str, after: str | None, limit: int) -> tuple[list[Json], str | None]:
        """Those whose name contains the text, behind a name, and the last name if there are more."""
        found: list[Json] = []
        looked_at = 0
        while looked_at < SCANNED:
            wanted: Json = {"Limit": LOOKED_AT if text else limit}
            if after:
                wanted["ExclusiveStartStreamName"] = after
            said = await self.call("ListStreams", wanted)
            for one in said["StreamSummaries"]:
                looked_at += 1
                after = one["StreamName"]
                if text in one["StreamName"]:
                    found.append(one)
                    if len(found) == limit:
                        more = said["HasMoreStreams"] or one is not said["StreamSummaries"][-1]
                        return found, after if more else None
            if not said["HasMoreStreams"]:
                return found, None
        return found, after

    async def summary(self, name: str) -> Json:
        return dict((await self.call("DescribeStreamSummary", {"StreamName": name}))["StreamDescriptionSummary"])

    async def shards(self, name: str, most: int) -> tuple[list[Json], bool]:
        """The oldest first, at most so many; and whether there are more."""
        said = await self.call("ListShards", {"StreamName": name, "MaxResults": min(most, 10_000)})
        return said["Shards"], bool(said.get("NextToken"))

    async def consumers(self, arn: str) -> list[Json]:
        return list((await self.call("ListStreamConsumers", {"StreamARN": arn, "MaxResults": 100}))["Consumers"])

    async def _found(self) -> str:
        where = (await self._access.get("/v1/overview")).get("listeners", {}).get("kinesis")
        if not where:
            raise ServerError(404, "the server does not say where it speaks Kinesis")
        return kinesis_url(self._access.server.url, where)

    async def _send(self, url: str, operation: str, parameters: Json) -> Json:
        body = json.dumps(parameters).encode()
        headers = {"Content-Type": _CONTENT_TYPE, "X-Amz-Target": _TARGET + operation}
        if self._signs:
            person = self._access.credentials
            signer = Credentials(person.user, person.password)
            host = urlsplit(url).netloc
            headers = signed_headers(signer, self._region or _DEFAULT_REGION, host, headers, body, datetime.now(UTC))
        answer = await self._access.post_to(url + "/", body, headers)
        look = LOOKING.get()
        if look is not None:
            look.found(answer.content)
        return _read(answer, operation, signed=self._signs)


class _Unsigned(Exception):
    """The server wants a signature."""


def _read(answer: Answer, operation: str, *, signed: bool) -> Json:
    try:
        said = json.loads(answer.content) if answer.content.strip() else {}
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise ServerError(answer.status, f"{operation} was answered with something else than JSON")
    if answer.status < 300:
        return said
    code = str(said.get("__type", "")).rpartition("#")[2]
    if code in _WANTS_SIGNATURE and not signed:
        raise _Unsigned
    text = said.get("message") or said.get("Message") or code or answer.reason
    raise ServerError(404 if code == _NOT_THERE else answer.status, f"{text} ({code})" if code else str(text))


def kinesis_url(server_url: str, where: str) -> str:
    return f"http://{reached_at(server_url, where)}"


def reached_at(server_url: str, where: str) -> str:
    """Host and port for who reaches the server at `server_url`; `where` is what the server itself calls it."""
    told, server = urlsplit(f"//{where}"), urlsplit(server_url)
    host = told.hostname or ""
    if host in _ANYWHERE:
        host = server.hostname or host
    return f"[{host}]:{told.port}" if ":" in host else f"{host}:{told.port}"
