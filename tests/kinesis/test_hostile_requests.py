"""Requests that an SDK never sends: mutated ones of every operation in every encoding, and each kind of nonsense by name. Each
is answered in AWS's form, never with an error of the server's own, and the connection goes on."""

from __future__ import annotations

import base64
import copy
import http.client
import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import cbor2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.kinesis.codec import cbor
from headrace.testing import HeadraceServer

STREAM = "hostile"
EXAMPLES, SOAK_EXAMPLES = 300, 20_000
JSON, CBOR, RPC = "application/x-amz-json-1.1", "application/x-amz-cbor-1.1", "application/cbor"
ARN = f"arn:aws:kinesis:us-east-1:123456789012:stream/{STREAM}"
SHARD = "shardId-000000000000"
RECORD = {"Data": b"some data", "PartitionKey": "key", "ExplicitHashKey": "17"}
NAME = {"StreamName": STREAM}

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("AddTagsToStream", {**NAME, "Tags": {"a": "b"}}),
    ("CreateStream", {"StreamName": "made", "ShardCount": 1, "StreamModeDetails": {"StreamMode": "PROVISIONED"}}),
    ("DecreaseStreamRetentionPeriod", {**NAME, "RetentionPeriodHours": 24}),
    ("DeleteResourcePolicy", {"ResourceARN": ARN}),
    ("DeleteStream", {"StreamName": "made", "EnforceConsumerDeletion": True}),
    ("DeregisterStreamConsumer", {"StreamARN": ARN, "ConsumerName": "c"}),
    ("DescribeAccountSettings", {}),
    ("DescribeLimits", {}),
    ("DescribeStream", {**NAME, "Limit": 10, "ExclusiveStartShardId": SHARD}),
    ("DescribeStreamConsumer", {"StreamARN": ARN, "ConsumerName": "c"}),
    ("DescribeStreamSummary", NAME),
    ("DisableEnhancedMonitoring", {**NAME, "ShardLevelMetrics": ["ALL"]}),
    ("EnableEnhancedMonitoring", {**NAME, "ShardLevelMetrics": ["IncomingBytes"]}),
    ("GetRecords", {"ShardIterator": "AAAAAAAAAAE=", "Limit": 10}),
    ("GetResourcePolicy", {"ResourceARN": ARN}),
    (
        "GetShardIterator",
        {**NAME, "ShardId": SHARD, "ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": "1" * 56},
    ),
    ("GetShardIterator", {**NAME, "ShardId": SHARD, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": 1.5e9}),
    ("IncreaseStreamRetentionPeriod", {**NAME, "RetentionPeriodHours": 48}),
    ("ListShards", {**NAME, "MaxResults": 10, "ShardFilter": {"Type": "AT_TIMESTAMP", "Timestamp": 1.5e9}}),
    ("ListShards", {"NextToken": "AAAA"}),
    ("ListStreamConsumers", {"StreamARN": ARN, "MaxResults": 2}),
    ("ListStreams", {"Limit": 2, "ExclusiveStartStreamName": "a"}),
    ("ListTagsForResource", {"ResourceARN": ARN}),
    ("ListTagsForStream", {**NAME, "Limit": 5}),
    ("MergeShards", {**NAME, "ShardToMerge": SHARD, "AdjacentShardToMerge": "shardId-000000000001"}),
    ("PutRecord", {**NAME, **RECORD, "SequenceNumberForOrdering": "1" * 56}),
    ("PutRecords", {**NAME, "Records": [RECORD, RECORD, RECORD]}),
    ("PutResourcePolicy", {"ResourceARN": ARN, "Policy": '{"Version": "2012-10-17", "Statement": []}'}),
    ("RegisterStreamConsumer", {"StreamARN": ARN, "ConsumerName": "c"}),
    ("RemoveTagsFromStream", {**NAME, "TagKeys": ["a"]}),
    ("SplitShard", {**NAME, "ShardToSplit": SHARD, "NewStartingHashKey": "1000"}),
    ("StartStreamEncryption", {**NAME, "EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}),
    ("StopStreamEncryption", {**NAME, "EncryptionType": "KMS", "KeyId": "alias/aws/kinesis"}),
    (
        "SubscribeToShard",
        {"ConsumerARN": f"{ARN}/consumer/c:1", "ShardId": SHARD, "StartingPosition": {"Type": "TRIM_HORIZON"}},
    ),
    ("TagResource", {"ResourceARN": ARN, "Tags": {"a": "b"}}),
    ("UntagResource", {"ResourceARN": ARN, "TagKeys": ["a"]}),
    ("UpdateMaxRecordSize", {"StreamARN": ARN, "MaxRecordSizeInKiB": 2048}),
    ("UpdateShardCount", {**NAME, "TargetShardCount": 2, "ScalingType": "UNIFORM_SCALING"}),
    ("UpdateStreamMode", {"StreamARN": ARN, "StreamModeDetails": {"StreamMode": "PROVISIONED"}}),
]

ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 24, 10_000, 2**31, -(2**31) - 1, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), float("-inf"), "", "a", STREAM, SHARD, "made", "x" * 300, "x" * 70_000, "\0", "ü", "😀" * 257, "====", "AAA",
    "AA=A", "!", "0", "-1", "9" * 60, str(2**128), str(2**128 - 1), "1" * 56, "49" * 28, ARN, f"{ARN}/consumer/c:1", "arn:aws:",
    "LATEST", "TRIM_HORIZON", "AT_TIMESTAMP", "AFTER_SEQUENCE_NUMBER", "ON_DEMAND", [], {}, [[]], [{}], [None], {"": None},
    {"a": {"b": []}}, b"", b"\xff\xfe", b"x" * 5000, [RECORD], ["ALL"] * 20,
]  # fmt: skip


@pytest.fixture(scope="module")
def server(headrace_settings: dict[str, object]) -> Iterator[HeadraceServer]:
    own = {"kinesis.shard.limit": 40, "kinesis.subscription.ms": 1000}
    with HeadraceServer(settings={**headrace_settings, **own}) as server:
        peer = Peer(server.kinesis)
        assert peer.ask("CreateStream", {**NAME, "ShardCount": 2})[0] == 200
        yield server
        assert server.running
        assert "Traceback" not in server.log_text()


class Peer:
    """One connection, opened again where the answer ended it."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)

    def ask(
        self, operation: str, body: bytes | dict[str, Any], content_type: str = JSON, **headers: str
    ) -> tuple[int, Any, http.client.HTTPMessage]:
        if isinstance(body, dict):
            body = encoded(body, content_type)
        path = "/"
        sent = {"Content-Type": content_type, "X-Amz-Target": f"Kinesis_20131202.{operation}", **headers}
        if content_type == RPC:
            path = f"/service/Kinesis_20131202/operation/{operation}"
            sent["Smithy-Protocol"] = "rpc-v2-cbor"
        self._connection.request("POST", path, body, sent)
        answer = self._connection.getresponse()
        data = answer.read()
        kind = answer.headers.get("Content-Type", "")
        said: Any = data
        if kind == JSON:
            said = json.loads(data) if data else None
        elif kind in (CBOR, RPC):
            said = cbor.decode(data) if data else None  # cbor2 takes no timestamps in milliseconds
        return answer.status, said, answer.headers


@pytest.fixture(scope="module")
def peer(server: HeadraceServer) -> Peer:
    return Peer(server.kinesis)


@pytest.fixture(autouse=True)
def others_go_on(server: HeadraceServer) -> Iterator[None]:
    """After each test a well-behaved client is served."""
    yield
    status, said, _ = Peer(server.kinesis).ask("PutRecord", {**NAME, **RECORD})
    assert (status, said["ShardId"][:8]) == (200, "shardId-")


def encoded(given: Any, content_type: str) -> bytes:
    if content_type == JSON:
        return json.dumps(given, default=lambda data: base64.b64encode(data).decode()).encode()
    return cbor2.dumps(given)


def places(value: Any) -> list[tuple[Any, ...]]:
    """The path of every value inside, with () for the whole."""
    found: list[tuple[Any, ...]] = [()]
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        found += [(key, *path) for path in places(each)]
    return found


def changed(whole: Any, path: tuple[Any, ...], value: Any, *, remove: bool) -> Any:
    if not path:
        return value
    at = whole
    for key in path[:-1]:
        at = at[key]
    if remove:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return whole


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """An operation, a content type and a body: odd values at some places, then odd bytes at some."""
    operation, original = draw(st.sampled_from(REQUESTS))
    content_type = draw(st.sampled_from([JSON, JSON, CBOR, RPC]))
    given = copy.deepcopy(original)
    for _ in range(draw(st.integers(0, 3))):
        path = draw(st.sampled_from(places(given)))
        value = draw(st.one_of(st.sampled_from(ODD_VALUES), st.text(max_size=20), st.integers(), st.binary(max_size=20)))
        given = changed(given, path, copy.deepcopy(value), remove=draw(st.booleans()))
    body = bytearray(encoded(given, content_type))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["insert", "cut", "drop", "flip"])):
            case "insert":
                body[at:at] = draw(st.binary(max_size=6))
            case "cut":
                del body[at:]
            case "drop":
                del body[at : at + draw(st.integers(1, 5))]
            case _ if at < len(body):
                body[at] ^= 1 << draw(st.integers(0, 7))
    return operation, content_type, bytes(body)


@pytest.mark.timeout(3600)
def test_a_mutated_request_is_answered_in_the_form_of_aws(server, peer, request):
    soak = request.config.getoption("--soak")
    how = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": not soak}

    @settings(max_examples=SOAK_EXAMPLES if soak else EXAMPLES, **how)
    @given(mutated())
    def check(sent: tuple[str, str, bytes]) -> None:
        operation, content_type, body = sent
        status, said, headers = peer.ask(operation, body, content_type)
        assert headers["x-amzn-RequestId"]
        if status == 200:
            assert said is None or isinstance(said, dict | bytes)
            return
        assert status in (400, 403), said  # nothing of this is a fault of the server
        assert said["__type"].endswith(("Exception", "Failure")), said
        assert isinstance(said.get("message", ""), str)

    check()


def test_every_operation_is_mutated():
    from headrace.kinesis.operations import NOT_SERVED, OPERATIONS

    missing = OPERATIONS.keys() - NOT_SERVED - {operation for operation, _ in REQUESTS}
    assert missing <= {"UpdateAccountSettings", "UpdateStreamRecordDistributionStrategy", "UpdateStreamWarmThroughput"}


BAD_JSON = {
    "nothing": b"",
    "no JSON": b"StreamName=hostile",
    "a list": b"[]",
    "a text": b'"hostile"',
    "a number": b"7",
    "null": b"null",
    "two values": b'{"StreamName": "hostile"} {}',
    "an object cut short": b'{"StreamName": "hostile"',
    "a text cut short": b'{"StreamName": "host',
    "a key that is a number": b'{1: "hostile"}',
    "a comma too many": b'{"StreamName": "hostile",}',
    "a comment": b'{"StreamName": "hostile" /* */}',
    "a byte order mark": b'\xef\xbb\xbf{"StreamName": "hostile"}',
    "another encoding": '{"StreamName": "hostile"}'.encode("utf-16"),
    "bytes that are no UTF-8": b'{"StreamName": "host\xff\xfeile"}',
    "half a surrogate pair": b'{"StreamName": "\\ud800"}',
    "a control character": b'{"StreamName": "a\x01b"}',
    "NaN": b'{"StreamName": "hostile", "Limit": NaN}',
    "Infinity": b'{"StreamName": "hostile", "Limit": Infinity}',
    "a number beyond every double": b'{"StreamName": "hostile", "Limit": 1e400}',
    "a number as a text": b'{"StreamName": "hostile", "Limit": "10"}',
    "lists without end": b'{"StreamName": ' + b"[" * 200_000,
    "objects without end": b'{"a":' * 200_000,
    "deep lists": b'{"StreamName": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "CBOR": cbor2.dumps(NAME),
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("body", BAD_JSON.values(), ids=BAD_JSON)
def test_what_is_not_json_of_the_right_shape_is_a_serialization_exception(body, peer):
    status, said, _ = peer.ask("DescribeStream", body)
    assert (status, said["__type"]) == (400, "SerializationException")


BAD_CBOR = {
    "nothing": b"",
    "JSON": json.dumps(NAME).encode(),
    "a list": cbor2.dumps([]),
    "a text": cbor2.dumps("hostile"),
    "two values": cbor2.dumps(NAME) * 2,
    "cut short": cbor2.dumps(NAME)[:-1],
    "a map that lies about its length": b"\xbb" + b"\xff" * 8,
    "a list that lies about its length": b"\xa1\x6aStreamName\x9b" + b"\xff" * 8,
    "a text that lies about its length": b"\xa1\x6aStreamName\x7b" + b"\xff" * 8,
    "bytes that lie about their length": b"\xa1\x6aStreamName\x5b\x7f" + b"\xff" * 7,
    "a map without end": b"\xbf\x6aStreamName\x67hostile",
    "a map with half an entry": b"\xbf\x6aStreamName\xff",
    "a text of pieces that are no texts": b"\xa1\x6aStreamName\x7f\x41a\xff",
    "a text of pieces of pieces": b"\xa1\x6aStreamName\x7f\x7f\x61a\xff\xff",
    "a break alone": b"\xff",
    "a reserved length": b"\xa1\x6aStreamName\x7c",
    "a key that is a list": b"\xa1\x80\x67hostile",
    "a text that is no UTF-8": b"\xa1\x6aStreamName\x62\xff\xfe",
    "lists without end": b"\xa1\x6aStreamName" + b"\x81" * 200_000,
    "lists of no length without end": b"\xa1\x6aStreamName" + b"\x9f" * 200_000,
    "tags without end": b"\xa1\x6aStreamName" + b"\xc1" * 200_000,
    "shared references": b"\xa1\x6aStreamName\xd8\x1c\x81\xd8\x1d\x00",
    "a number of a million digits": b"\xa1\x65Limit\xc2\x5a\x00\x06\x00\x00" + b"\xff" * 393_216,
    "a decimal with a huge exponent": b"\xa1\x65Limit\xc4\x82\x1b\x7f\xff\xff\xff\xff\xff\xff\xff\x01",
    "a million small values": b"\xa1\x6aStreamName\x9a\x00\x0f\x42\x40" + b"\x00" * 1_000_000,
}


@pytest.mark.parametrize("content_type", [CBOR, RPC])
@pytest.mark.parametrize("body", BAD_CBOR.values(), ids=BAD_CBOR)
def test_what_is_not_cbor_of_the_right_shape_is_refused(body, content_type, peer):
    if not body and content_type == RPC:
        pytest.skip("nothing at all is a request without parameters there")
    status, said, _ = peer.ask("DescribeStream", body, content_type)
    assert status == 400
    assert said["__type"].rpartition("#")[2] in ("SerializationException", "ValidationException")


def test_a_body_in_another_encoding_than_it_says_is_refused(peer):
    for body, content_type in ((encoded(NAME, JSON), CBOR), (encoded(NAME, CBOR), JSON)):
        status, said, _ = peer.ask("DescribeStreamSummary", body, content_type)
        assert (status, said["__type"]) == (400, "SerializationException")


BAD_DATA = ["A", "AA", "AAA", "AAAAA", "AA==AA==", "=AAA", "A===", "AAA!", "AA\nA", "AAA\0", "ÄAAA", "AAB=", "____", "===="]


@pytest.mark.parametrize("operation", ["PutRecord", "PutRecords"])
@pytest.mark.parametrize("data", BAD_DATA)
def test_data_that_is_not_base64_is_refused_and_nothing_of_the_request_is_stored(data, operation, peer):
    good = {"Data": "AAAA", "PartitionKey": "k"}
    bad = {"Data": data, "PartitionKey": "k"}
    body = {**NAME, **bad} if operation == "PutRecord" else {**NAME, "Records": [good, bad, good]}
    before = stored(peer)
    status, said, _ = peer.ask(operation, body)
    assert (status, said["__type"]) == (400, "SerializationException")
    assert stored(peer) == before


def stored(peer: Peer) -> int:
    """How many records are in the stream."""
    count = 0
    for shard in peer.ask("ListShards", NAME)[1]["Shards"]:
        where = {**NAME, "ShardId": shard["ShardId"], "ShardIteratorType": "TRIM_HORIZON"}
        iterator = peer.ask("GetShardIterator", where)[1]["ShardIterator"]
        while iterator:
            page = peer.ask("GetRecords", {"ShardIterator": iterator})[1]
            count += len(page["Records"])
            iterator = page["NextShardIterator"] if page["Records"] else None
    return count


TARGETS = ["", "PutRecord", "Kinesis_20131202", "Kinesis_20131202.", "Kinesis_20131202.Nothing", "Kinesis_20131202.putrecord",
           "Kinesis_20111202.PutRecord", "DynamoDB_20120810.PutItem", "Kinesis_20131202.__class__", "x" * 5000]  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_an_unknown_target_is_an_unknown_operation(target, peer):
    status, said, _ = peer.ask("", NAME, **{"X-Amz-Target": target})
    assert (status, said["__type"]) == (400, "UnknownOperationException")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_another_method_than_post_is_refused(method, server):
    place = urlsplit(server.kinesis)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=20)
    connection.request(method, "/", headers={"X-Amz-Target": "Kinesis_20131202.ListStreams", "Content-Type": JSON})
    assert connection.getresponse().status in (400, 403, 405, 501)
    connection.close()


def test_no_forged_iterator_is_taken(peer):
    where = {**NAME, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
    genuine = peer.ask("GetShardIterator", where)[1]["ShardIterator"]
    raw = base64.b64decode(genuine)
    chance = random.Random(3)
    forged = [genuine[:-4], genuine + "AAAA", genuine[4:], genuine.lower(), genuine + "\n", "A" * 512, "", "x", "é" * 10]
    for _ in range(200):
        flipped = bytearray(raw)
        flipped[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        forged.append(base64.b64encode(flipped).decode())
    for token in forged:
        status, said, _ = peer.ask("GetRecords", {"ShardIterator": token})
        assert status == 400, token
        assert said["__type"] in ("InvalidArgumentException", "ValidationException"), token
    assert peer.ask("GetRecords", {"ShardIterator": genuine})[0] == 200


def test_an_iterator_of_another_account_or_region_is_not_taken(peer):
    where = {**NAME, "ShardId": SHARD, "ShardIteratorType": "TRIM_HORIZON"}
    genuine = peer.ask("GetShardIterator", where)[1]["ShardIterator"]
    for scope in ("test/20240101/eu-west-1", "999999999999/20240101/us-east-1"):
        signed = f"AWS4-HMAC-SHA256 Credential={scope}/kinesis/aws4_request, SignedHeaders=host, Signature=0"
        status, said, _ = peer.ask("GetRecords", {"ShardIterator": genuine}, Authorization=signed)
        assert (status, said["__type"]) == (400, "InvalidArgumentException")


def test_no_forged_token_of_a_list_is_taken(peer):
    genuine = peer.ask("ListShards", {**NAME, "MaxResults": 1})[1]["NextToken"]
    chance = random.Random(4)
    for _ in range(100):
        at = chance.randrange(len(genuine))
        token = genuine[:at] + chance.choice("ABCxyz019+/=") + genuine[at + 1 :]
        if token != genuine:
            status, said, _ = peer.ask("ListShards", {"NextToken": token})
            assert status == 400, token
            assert said["__type"] in ("InvalidArgumentException", "ExpiredNextTokenException", "ValidationException")
    assert peer.ask("ListShards", {"NextToken": genuine})[0] == 200


AUTHORIZATIONS = [
    "",
    "x",
    "AWS4-HMAC-SHA256",
    "AWS4-HMAC-SHA256 Credential=",
    "AWS4-HMAC-SHA256 Credential=////, SignedHeaders=,",
    "AWS4-HMAC-SHA256 Credential=a/b/c/d/e/f/g",
    "AWS4-HMAC-SHA256 Credential=a/20240101/../../etc/kinesis/aws4_request",
    "AWS AKID:signature",
    "Basic Z3Vlc3Q6Z3Vlc3Q=",
    "Bearer x",
    "x" * 8000,
    "\xff\xfe",
]


@pytest.mark.parametrize("authorization", AUTHORIZATIONS)
def test_any_authorization_is_accepted_or_refused_in_the_form_of_aws(authorization, peer):
    status, said, _ = peer.ask("ListStreams", {}, Authorization=authorization)
    assert status == 200 or (status in (400, 403) and said["__type"].endswith("Exception"))
