"""Requests as bytes: encodings, headers, and what comes back when a request is none of the API's."""

from __future__ import annotations

import cbor2
import pytest
from tests.kinesis.conftest import CBOR, JSON

RPC_PATH = "/service/Kinesis_20131202/operation/"
RPC = {"content_type": "application/cbor", "smithy_protocol": "rpc-v2-cbor"}


@pytest.fixture
def signed(account, signed_by):
    return {"authorization": signed_by(account)}


def test_an_answer_has_the_headers_that_aws_sends(ask, signed):
    answer = ask("ListStreams", {}, **signed)
    assert answer.status == 200
    assert answer.headers["content-type"] == JSON
    assert len(answer.headers["x-amzn-requestid"]) == 36
    assert len(answer.headers["x-amz-id-2"]) == 96
    assert "date" in answer.headers
    assert answer.json == {"StreamNames": [], "HasMoreStreams": False, "StreamSummaries": []}
    assert ask("ListStreams", {}, **signed).headers["x-amzn-requestid"] != answer.headers["x-amzn-requestid"]


def test_an_operation_without_an_answer_sends_an_empty_body(ask, client, signed):
    answer = ask("CreateStream", {"StreamName": "plain", "ShardCount": 1}, **signed)
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "0")
    assert client.list_streams()["StreamNames"] == ["plain"]


def test_an_error_is_named_in_the_body_and_in_a_header(ask, account, signed):
    answer = ask("DescribeStream", {"StreamName": "missing"}, **signed)
    assert answer.error == (400, "ResourceNotFoundException", f"Stream missing under account {account} not found.")
    assert answer.headers["x-amzn-errortype"] == "ResourceNotFoundException"


def test_json_has_blobs_in_base64_and_timestamps_in_seconds(ask, client, signed):
    client.create_stream(StreamName="plain", ShardCount=1)
    created = ask("DescribeStreamSummary", {"StreamName": "plain"}, **signed).json["StreamDescriptionSummary"]
    assert 1.7e9 < created["StreamCreationTimestamp"] < 1e10
    listed = ask("ListShards", {"StreamName": "plain", "StreamCreationTimestamp": created["StreamCreationTimestamp"]}, **signed)
    assert len(listed.json["Shards"]) == 1


def test_cbor_has_timestamps_in_milliseconds_under_tag_1(ask, client, signed):
    client.create_stream(StreamName="plain", ShardCount=1)
    answer = ask("DescribeStreamSummary", cbor2.dumps({"StreamName": "plain"}), content_type=CBOR, **signed)
    assert answer.headers["content-type"] == CBOR
    created = cbor2.loads(answer.body, semantic_decoders={1: lambda value, *_: ("tag 1", value)})
    tag, ms = created["StreamDescriptionSummary"]["StreamCreationTimestamp"]
    assert tag == "tag 1"
    assert 1.7e12 < ms < 1e13
    for moment in (cbor2.CBORTag(1, ms), cbor2.CBORTag(1, ms / 1000)):
        asked = cbor2.dumps({"StreamName": "plain", "StreamCreationTimestamp": moment})
        listed = ask("ListShards", asked, content_type=CBOR, **signed)
        assert [shard["ShardId"] for shard in cbor2.loads(listed.body)["Shards"]] == ["shardId-000000000000"]


def test_an_error_in_cbor_is_cbor(ask, account, signed):
    answer = ask("DescribeStream", cbor2.dumps({"StreamName": "missing"}), content_type=CBOR, **signed)
    assert (answer.status, answer.headers["content-type"]) == (400, CBOR)
    assert cbor2.loads(answer.body) == {
        "__type": "ResourceNotFoundException",
        "message": f"Stream missing under account {account} not found.",
    }


def test_rpc_v2_cbor_is_spoken_too(ask, client, account, signed):
    client.create_stream(StreamName="plain", ShardCount=1)
    path = RPC_PATH + "DescribeStreamSummary"
    answer = ask(None, cbor2.dumps({"StreamName": "plain"}), path=path, **RPC, **signed)
    assert (answer.headers["content-type"], answer.headers["smithy-protocol"]) == ("application/cbor", "rpc-v2-cbor")
    summary = cbor2.loads(answer.body)["StreamDescriptionSummary"]
    assert summary["StreamCreationTimestamp"].year >= 2025  # tag 1 in seconds
    failed = ask(None, cbor2.dumps({"StreamName": "missing"}), path=path, **RPC, **signed)
    assert cbor2.loads(failed.body) == {
        "__type": "com.amazonaws.kinesis#ResourceNotFoundException",
        "message": f"Stream missing under account {account} not found.",
    }
    assert cbor2.loads(ask(None, b"", path=RPC_PATH + "ListStreams", **RPC, **signed).body)["StreamNames"] == ["plain"]
    made = ask(None, cbor2.dumps({"StreamName": "made", "ShardCount": 1}), path=RPC_PATH + "CreateStream", **RPC, **signed)
    assert (made.status, cbor2.loads(made.body)) == (200, {})


@pytest.mark.parametrize("target", ["Kinesis_20131202.Nonsense", "Kinesis_20111205.ListStreams", "a.b", "Kinesis_20131202."])
def test_an_unknown_target_is_an_unknown_operation(target, ask):
    answer = ask(target, {})
    assert answer.error == (400, "UnknownOperationException", None)
    assert answer.headers["x-amzn-errortype"] == "UnknownOperationException"


def test_no_target_at_all_is_an_unknown_operation(ask):
    assert ask(None, {}).error == (400, "UnknownOperationException", None)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"text"', b"{", b"{]", b"\xff", b"{}{}", b"[" * 100_000])
def test_a_body_that_is_no_json_object_is_a_serialization_exception(body, ask):
    assert ask("ListStreams", body).error == (400, "SerializationException", None)


@pytest.mark.parametrize("body", [b"", b"\x80", b"\xbf", b"\xa1\x01\x02", b"\xff", b"\xa0\xa0", b"\x81" * 100_000])
def test_a_body_that_is_no_cbor_map_is_a_serialization_exception(body, ask):
    answer = ask("ListStreams", body, content_type=CBOR)
    assert (answer.status, cbor2.loads(answer.body)) == (400, {"__type": "SerializationException"})


def test_plain_json_is_not_the_api(ask):
    answer = ask("ListStreams", {}, content_type="application/json")
    assert (answer.status, answer.json) == (
        404,
        {"Output": {"__type": "com.amazon.coral.service#UnknownOperationException"}, "Version": "1.0"},
    )


def test_plain_json_that_is_none_is_not_either(ask):
    answer = ask("ListStreams", b"nonsense", content_type="application/json")
    assert (answer.status, answer.json) == (
        400,
        {"Output": {"__type": "com.amazon.coral.service#SerializationException"}, "Version": "1.0"},
    )


def test_an_empty_body_of_no_known_type_is_answered_in_cbor(ask):
    for target, code in (("ListStreams", "SerializationException"), (None, "UnknownOperationException")):
        answer = ask(target, b"", content_type=None)
        assert (answer.status, answer.headers["content-type"], cbor2.loads(answer.body)) == (400, CBOR, {"__type": code})


def test_the_text_of_a_serialization_exception_has_a_capital_letter(ask):
    assert ask("ListStreams", {"Limit": "x"}).json == {
        "__type": "SerializationException",
        "Message": "class java.lang.String can not be converted to an Integer",
    }


def test_another_content_type_is_not_the_api(ask):
    answer = ask("ListStreams", {}, content_type="text/plain")
    assert (answer.status, answer.body) == (404, b"<UnknownOperationException/>\n")
    answer = ask(None, {}, content_type=None)
    assert (answer.status, answer.body) == (
        403,
        b"<AccessDeniedException>\n  <Message>Unable to determine service/operation name to be authorized</Message>\n"
        b"</AccessDeniedException>\n",
    )


def test_parameters_of_a_content_type_do_not_matter(ask, signed):
    assert ask("ListStreams", {}, content_type=JSON + "; charset=utf-8", **signed).status == 200
    assert ask("ListStreams", {}, content_type=JSON.upper(), **signed).status == 200


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_another_method_than_post_is_told_to_go(method, ask):
    answer = ask(None, b"", method=method, content_type=None)
    assert answer.status == 403
    assert answer.body.startswith(b"<AccessDeniedException>")
    assert answer.headers["x-amzn-errortype"] == "AccessDeniedException"


def test_the_caller_is_told_its_account(ask, signed):
    body = "Action=GetCallerIdentity&Version=2011-06-15"
    answer = ask(None, body, content_type="application/x-www-form-urlencoded", **signed)
    assert answer.status == 200
    assert f"<Account>{signed['authorization'].split('=')[1].split('/')[0]}</Account>".encode() in answer.body


def test_boto3_asks_for_the_account_on_the_same_port(endpoint):
    import boto3

    sts = boto3.client(
        "sts", endpoint_url=endpoint, region_name="eu-west-1", aws_access_key_id="210000000001", aws_secret_access_key="any"
    )
    identity = sts.get_caller_identity()
    assert (identity["Account"], identity["Arn"]) == ("210000000001", "arn:aws:iam::210000000001:root")


def test_the_port_is_taken_another_one_is_found_and_told(headrace_factory, tmp_path):
    """Without --kinesis the default port is asked for; one that is given and taken is refused."""
    import socket
    import subprocess
    import sys

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        place = "{}:{}".format(*holder.getsockname())
        command = [sys.executable, "-m", "headrace", "serve", "--data", str(tmp_path), "--kafka", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--amqp", "127.0.0.1:0", "--kinesis"]
        taken = subprocess.run([*command, place], capture_output=True, text=True, timeout=60)
        assert taken.returncode == 2
        assert place in taken.stderr
        public = subprocess.run([*command, "0.0.0.0:0"], capture_output=True, text=True, timeout=60)
        assert public.returncode == 2
        assert "can be reached from other machines" in public.stderr


def test_a_server_that_no_kinesis_client_talks_to_does_not_load_the_api(endpoint):
    import subprocess
    import sys

    code = (
        "import sys, headrace.server\n"
        "loaded = [name for name in sys.modules if name.startswith('headrace.kinesis')]\n"
        "print(sorted(loaded), 'msgspec' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.strip() == "['headrace.kinesis', 'headrace.kinesis.listener'] False"
