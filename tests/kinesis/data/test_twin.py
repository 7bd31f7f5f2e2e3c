"""The compiled twin and the one in Python give the same batches, the same answers and the same refusals, whatever they get."""

from __future__ import annotations

import json
import os
from base64 import b64decode, b64encode
from hashlib import md5

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.kinesis.codec import cbor
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.data import pure
from headrace.kinesis.errors import KinesisError
from headrace.kinesis.validation import checked_parameters
from headrace.record import CorruptBatch, Event, encode_batch
from headrace.record.batch import HEADER_SIZE, TimestampType, decode_batch
from headrace.record.compression import Compression

compiled = pytest.importorskip("headrace._kinesis", reason="not built")

EFFORT = 50 if os.environ.get("HEADRACE_SOAK") else 1
TWINS = [pure, compiled]
FORMS = [pure.JSON, pure.CBOR, pure.RPC]
ENCODINGS = [Encoding.JSON, Encoding.CBOR, Encoding.RPC]
HASH_KEYS = 2**128

datas = st.binary(max_size=200) | st.integers(0, 4000).map(lambda size: bytes(range(256)) * (size // 256) + b"x" * (size % 256))
keys = st.text(min_size=1, max_size=40).map(str.encode)
hash_keys = st.integers(0, HASH_KEYS - 1).map(lambda number: str(number).encode())
puts = st.lists(st.tuples(datas, st.none() | keys, st.none() | hash_keys), min_size=1, max_size=30)
shard_ends = st.lists(st.integers(0, HASH_KEYS - 2), max_size=6, unique=True).map(
    lambda ends: b"".join(end.to_bytes(16, "big") for end in [*sorted(ends), HASH_KEYS - 1])
)


# --- puts


@settings(max_examples=40 * EFFORT, deadline=None)
@given(puts, shard_ends, st.integers(200, 20_000), st.sampled_from(FORMS), st.none() | st.just("KMS"), st.data())
def test_batches_and_answers_are_the_same(records, ends, most, form, encryption, data):
    both = [twin.Puts(records) for twin in TWINS]
    assert both[0].sizes() == both[1].sizes()
    assert both[0].places(ends) == both[1].places(ends)
    assert (both[0].size, both[0].largest, both[0].count) == (both[1].size, both[1].largest, both[1].count)
    assert both[0].without_key == both[1].without_key
    for place in data.draw(st.sets(st.integers(0, len(records) - 1), max_size=3)):
        for each in both:
            each.fail(place, "Code", f'a "text" with é {place}')
    made = [each.batches(ends, 1_700_000_000_123, most) for each in both]
    assert made[0] == made[1]
    again = data.draw(st.sets(st.sampled_from([batch[0] for batch in made[0]]))) if made[0] else set()
    for number, place, _, _ in made[0]:
        if number in again:
            continue
        wrong = data.draw(st.booleans())
        for each in both:
            if wrong:
                each.fail_batch(number, "InternalFailure", "Internal Service Failure.")
            else:
                each.stored(number, 2**100 * place, place, 1000 * number + 2**40)
    rest = [each.batches(ends, 1_700_000_000_124, most, 0, sorted(again)) if again else [] for each in both]
    assert rest[0] == rest[1]
    for number, place, _, _ in rest[0]:
        for each in both:
            each.stored(number, 0, place, 5)
    assert both[0].failed == both[1].failed
    assert both[0].answer(form, encryption) == both[1].answer(form, encryption)


@pytest.mark.parametrize("twin", TWINS)
def test_a_batch_holds_the_records_in_order_with_key_data_and_explicit_hash_key(twin):
    records = [(b"one", b"k", None), (b"", "ключ".encode(), b"7"), (b"x" * 300, None, None)]
    [(number, place, count, batch)] = twin.Puts(records).batches(b"\xff" * 16, 1_700_000_000_123, 1 << 20)
    assert (number, place, count) == (0, 0, 3)
    found = decode_batch(batch)
    assert [(record.offset, record.timestamp_ms, record.key, record.value, record.headers) for record in found] == [
        (0, 1_700_000_000_123, b"k", b"one", ()),
        (1, 1_700_000_000_123, "ключ".encode(), b"", (("kinesis.explicit-hash-key", b"7"),)),
        (2, 1_700_000_000_123, None, b"x" * 300, ()),
    ]


@pytest.mark.parametrize("twin", TWINS)
@settings(max_examples=30 * EFFORT, deadline=None)
@given(st.binary(min_size=1, max_size=300))
def test_a_key_goes_where_its_md5_says(twin, key):
    number = int.from_bytes(md5(key).digest(), "big")
    below, at, above = ((number + step) % HASH_KEYS for step in (-1, 0, 1))
    ends = b"".join(end.to_bytes(16, "big") for end in sorted({below, at, above, HASH_KEYS - 1}))
    place = twin.Puts([(b"", key, None)]).places(ends)[0]
    assert ends[16 * place : 16 * place + 16] == number.to_bytes(16, "big")


@pytest.mark.parametrize("twin", TWINS)
@settings(max_examples=30 * EFFORT, deadline=None)
@given(
    st.integers(0, 2**191) | st.just(0) | st.integers(0, 2**66), st.integers(0, 2**63 - 600) | st.integers(0, 1000),
    st.integers(0, 2**31 - 1), st.integers(1, 500),
)  # fmt: skip
@example(2**191, 2**63 - 600, 0, 3)
@example(10**56 - 5, 0, 1, 9)
@example(10**18 - 5, 0, 1, 9)
def test_an_answer_has_the_sequence_numbers_of_the_offsets(twin, first, base, index, count):
    made = twin.Puts([(b"", b"k", None)] * count)
    made.batches(b"\xff" * 16, 0, 1 << 20)
    made.stored(0, first, index, base)
    found = json.loads(made.answer(pure.JSON, None))
    assert found["FailedRecordCount"] == 0
    assert found["Records"] == [
        {"SequenceNumber": str(first + base + delta + 1), "ShardId": f"shardId-{index:012d}"} for delta in range(count)
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encryption", [None, "KMS"])
def test_the_answer_about_one_record_is_the_same(form, encryption):
    answers = []
    for twin in TWINS:
        made = twin.Puts([(b"x", b"k", None)])
        made.batches(b"\xff" * 16, 0, 1 << 20)
        made.stored(0, 3 * 10**30, 3, 17)
        answers.append(made.sole_answer(form, encryption))
    assert answers[0] == answers[1]


# --- bodies


def thorough(name, body, form):
    """What the thorough way makes of a body: the stream's names and the records; None for a refusal."""
    try:
        found = checked_parameters(name, body, ENCODINGS[form])
    except KinesisError:
        return None
    records = [found] if name == "PutRecord" else found["Records"]
    try:
        return (
            found.get("StreamName"),
            found.get("StreamARN"),
            [
                (
                    record["Data"],
                    record["PartitionKey"].encode() if "PartitionKey" in record else None,
                    record["ExplicitHashKey"].encode() if "ExplicitHashKey" in record else None,
                )
                for record in records
            ],
        )
    except UnicodeEncodeError:
        return None


def compare(name, body, form):
    """If the quick way understands a body, it understands the same as the thorough one."""
    quick = compiled.scan(body, form, name == "PutRecord")
    if quick is None:
        return False
    found = thorough(name, body, form)
    assert found is not None
    stream_name, stream_arn, records = found
    assert (quick.stream_name, quick.stream_arn) == (stream_name, stream_arn)
    plain = pure.Puts(records)
    ends = (2**127).to_bytes(16, "big") + b"\xff" * 16
    assert quick.batches(ends, 1, 1 << 20) == plain.batches(ends, 1, 1 << 20)
    assert (quick.size, quick.largest, quick.without_key) == (plain.size, plain.largest, plain.without_key)
    return True


def json_of(value, spaced):
    return json.dumps(value, separators=(", ", ": ") if spaced else (",", ":"), ensure_ascii=False).encode()


@st.composite
def bodies(draw, name, form):
    def record(item):
        data, key, explicit = item
        found = {"Data": b64encode(data).decode() if form == pure.JSON else data}
        if key is not None:
            found["PartitionKey"] = key.decode()
        if explicit is not None:
            found["ExplicitHashKey"] = explicit.decode()
        return dict(draw(st.permutations(list(found.items()))))

    named = draw(st.sampled_from(["StreamName", "StreamARN", "both", "neither"]))
    whole = {}
    if named in ("StreamName", "both"):
        whole["StreamName"] = draw(st.sampled_from(["s", "a.b-c_D9", "x" * 128]))
    if named in ("StreamARN", "both"):
        whole["StreamARN"] = "arn:aws:kinesis:us-east-1:123456789012:stream/s"
    if name == "PutRecord":
        whole.update(record(draw(st.tuples(datas, st.none() | keys, st.none() | hash_keys))))
    else:
        whole["Records"] = [record(item) for item in draw(puts)]
    whole = dict(draw(st.permutations(list(whole.items()))))
    return json_of(whole, draw(st.booleans())) if form == pure.JSON else cbor.encode(whole, timestamps_in_ms=True)


@pytest.mark.parametrize("form", [pure.JSON, pure.CBOR])
@pytest.mark.parametrize("name", ["PutRecord", "PutRecords"])
@settings(max_examples=30 * EFFORT, deadline=None)
@given(st.data())
def test_the_quick_way_reads_a_body_as_the_thorough_way_does(name, form, data):
    compare(name, data.draw(bodies(name, form)), form)


@pytest.mark.parametrize("form", [pure.JSON, pure.CBOR])
@settings(max_examples=60 * EFFORT, deadline=None)
@given(st.data())
def test_a_damaged_body_is_read_as_the_thorough_way_does_or_not_at_all(form, data):
    name = data.draw(st.sampled_from(["PutRecord", "PutRecords"]))
    body = bytearray(data.draw(bodies(name, form)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        match data.draw(st.integers(0, 3)):
            case 0:
                body[place] = data.draw(st.integers(0, 255))
            case 1:
                del body[place : place + data.draw(st.integers(1, 8))]
            case 2:
                body[place:place] = data.draw(st.sampled_from([b'"', b"\\", b"{", b"}", b",", b"=", b"\xff", b"\0", b"\x9f"]))
            case 3:
                body = body[: place + 1]
        if not body:
            return
    compare(name, bytes(body), form)


@pytest.mark.parametrize("form", [pure.JSON, pure.CBOR])
@pytest.mark.parametrize("name", ["PutRecord", "PutRecords"])
@settings(max_examples=40 * EFFORT, deadline=None)
@given(st.binary(max_size=200))
@example(b"")
@example(b"{}")
@example(b'{"Records":[{"Data":"')
@example(b"\xbf\x67Records\x9f")
def test_any_bytes_are_read_as_the_thorough_way_does_or_not_at_all(name, form, body):
    compare(name, body, form)


def test_the_usual_bodies_take_the_quick_way():
    record = {"Data": b64encode(b"x" * 1000).decode(), "PartitionKey": "key-1", "ExplicitHashKey": str(HASH_KEYS - 1)}
    many = {"Records": [record] * 500, "StreamName": "s"}
    assert compare("PutRecords", json.dumps(many).encode(), pure.JSON)
    assert compare("PutRecord", json.dumps({"StreamName": "s", **record}).encode(), pure.JSON)
    in_java = b"\xbf\x6aStreamName\x61s\x67Records\x9f\xbf\x64Data\x43abc\x6cPartitionKey\x61k\xff\xff\xff"
    assert compare("PutRecords", in_java, pure.CBOR)
    assert compare("PutRecord", b"\xa3\x64Data\x43abc\x6cPartitionKey\x61k\x6aStreamName\x61s", pure.CBOR)


@pytest.mark.parametrize(
    "body",
    [
        {"Records": [{"Data": "eA==", "PartitionKey": "k"}] * 501, "StreamName": "s"},
        {"Records": [], "StreamName": "s"},
        {"Records": [{"Data": "eA==", "PartitionKey": "k"}], "StreamName": "s", "DryRun": True},
        {"Records": [{"Data": "eB==", "PartitionKey": "k"}], "StreamName": "s"},  # bits that no byte has
        {"Records": [{"Data": "eA=", "PartitionKey": "k"}], "StreamName": "s"},
        {"Records": [{"Data": "eA==", "PartitionKey": ""}], "StreamName": "s"},
        {"Records": [{"Data": "eA==", "PartitionKey": "k" * 257}], "StreamName": "s"},
        {"Records": [{"Data": "eA==", "PartitionKey": "k", "ExplicitHashKey": str(HASH_KEYS)}], "StreamName": "s"},
        {"Records": [{"Data": "eA==", "PartitionKey": "k", "ExplicitHashKey": "01"}], "StreamName": "s"},
        {"Records": [{"Data": "eA==", "PartitionKey": "k"}], "StreamName": "a b"},
        {"Records": [{"Data": "eA==", "PartitionKey": "k"}], "StreamARN": "arn:of:something"},
        {"Records": [{"PartitionKey": "k"}], "StreamName": "s"},
        {"Records": [{"Data": None, "PartitionKey": "k"}], "StreamName": "s"},
    ],
)
def test_what_is_not_usual_takes_the_thorough_way(body):
    assert compiled.scan(json.dumps(body).encode(), pure.JSON, False) is None


@pytest.fixture(params=[True, False], ids=["vectors", "plain"])
def base64_way(request):
    """Base64 as the processor can, and as any can."""
    before = compiled.use_vectors(request.param)
    if request.param and not before:
        compiled.use_vectors(before)
        pytest.skip("this processor has no vectors")
    yield
    compiled.use_vectors(before)


def data_of(text):
    """What the quick way decodes; None if it does not take it."""
    found = compiled.scan(b'{"StreamName":"s","PartitionKey":"k","Data":"' + text + b'"}', pure.JSON, True)
    if found is None:
        return None
    [(_, _, _, batch)] = found.batches(b"\xff" * 16, 0, 1 << 20)
    return decode_batch(batch)[0].value


def test_base64_of_any_length_is_decoded_and_encoded(base64_way):
    for size in range(400):
        data = bytes((7 * size + 31 * place) % 256 for place in range(size))
        assert data_of(b64encode(data)) == data
        found = compiled.RecordList(pure.JSON, 0, 10, 1000, None, False)
        found.take(bytes(encode_batch([Event(b"k", data, (), 1)])), 0, 0, 10)
        assert json.loads(found.body(b"", 0))["Records"][0]["Data"] == b64encode(data).decode()


def test_no_other_byte_is_taken_for_base64_wherever_it_stands(base64_way):
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    text = alphabet + alphabet[::-1]
    for place in range(0, len(text), 3):
        for byte in range(256):
            changed = text[:place] + bytes([byte]) + text[place + 1 :]
            expected = b64decode(changed) if byte in alphabet else None
            assert data_of(changed) == expected, (place, byte)


# --- records

events = st.builds(
    Event,
    st.none() | st.binary(max_size=30) | st.text(max_size=30).map(str.encode),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3).map(tuple),
    st.integers(-5, 2**62) | st.just(1_700_000_000_123),
)


@st.composite
def stored(draw):
    """Batches as a partition has them."""
    data, offset = bytearray(), draw(st.integers(0, 2**40))
    first = offset
    for _ in range(draw(st.integers(1, 4))):
        taken = draw(st.lists(events, min_size=1, max_size=8))
        when = draw(st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]))
        data += encode_batch(taken, base_offset=offset, timestamp_type=when, now_ms=1_700_000_000_999)
        offset += len(taken) + draw(st.sampled_from([0, 0, 5]))
    return first, offset, bytes(data)


def lists(form, limit, max_bytes, encryption, keyless):
    return [twin.RecordList(form, 10**30 + 7, limit, max_bytes, encryption, keyless) for twin in TWINS]


def facts(found):
    return found.count, found.size, found.last_ms, found.next_offset, found.full


@settings(max_examples=40 * EFFORT, deadline=None)
@given(
    stored(), st.integers(-2, 20), st.integers(-5, 40), st.integers(1, 30), st.integers(1, 3000), st.sampled_from(FORMS),
    st.none() | st.just("KMS"), st.booleans(),
)  # fmt: skip
def test_records_are_encoded_the_same(batches, start, end, limit, max_bytes, form, encryption, keyless):
    first, _, data = batches
    both = lists(form, limit, max_bytes, encryption, keyless)
    positions = [found.take(data, 0, first + start, first + end) for found in both]
    assert positions[0] == positions[1]
    assert facts(both[0]) == facts(both[1])
    tail = b',"MillisBehindLatest":0' if form == pure.JSON else b"\x61a\x00"
    made = both[0].body(tail, 1)
    assert made == both[1].body(tail, 1)
    decoded = json.loads(made) if form == pure.JSON else cbor.decode(made)
    assert len(decoded["Records"]) == both[0].count


@settings(max_examples=60 * EFFORT, deadline=None)
@given(stored(), st.data())
def test_damaged_batches_are_refused_the_same(batches, data):
    first, last, whole = batches
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 5))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    for given_data in (bytes(damaged), bytes(damaged[:cut]), memoryview(damaged)):
        both = lists(pure.JSON, 10_000, 1 << 30, None, False)
        positions = [found.take(given_data, 0, first, last) for found in both]
        assert positions[0] == positions[1]
        assert facts(both[0]) == facts(both[1])
        assert both[0].body(b"", 0) == both[1].body(b"", 0)


@settings(max_examples=40 * EFFORT, deadline=None)
@given(st.lists(events, min_size=1, max_size=5), st.integers(0, 6), st.data())
def test_damaged_records_are_refused_the_same(taken, count, data):
    payload = bytearray(encode_batch(taken, now_ms=0)[HEADER_SIZE:])
    if data.draw(st.booleans()):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    both = lists(pure.CBOR, 10_000, 1 << 30, None, False)
    refused = []
    for found in both:
        try:
            found.take_records(payload, count, 10, 1_700_000_000_000, -1, 0, 2**62)
            refused.append(False)
        except CorruptBatch:
            refused.append(True)
    assert refused[0] == refused[1]
    assert facts(both[0]) == facts(both[1])
    assert both[0].body(b"", 0) == both[1].body(b"", 0)


def test_compressed_and_transactional_batches_are_left_to_the_caller_and_markers_passed_over():
    plain = encode_batch([Event(b"k", b"v", (), 1)], base_offset=0)
    control = encode_batch([Event(b"\0\0\0\0", b"\0\0\0\0\0\0", (), 1)], base_offset=1, control=True, transactional=True)
    packed = encode_batch([Event(b"k", b"v", (), 1)], base_offset=2, compression=Compression.GZIP)
    transactional = encode_batch([Event(b"k", b"v", (), 1)], base_offset=2, transactional=True, producer_id=1, producer_epoch=0)
    for last in (packed, transactional):
        for found in lists(pure.JSON, 10, 1000, None, False):
            assert found.take(bytes(plain + control + last), 0, 0, 100) == len(plain + control)
            assert (found.count, found.next_offset, found.full) == (1, 2, False)


@pytest.mark.parametrize("twin", TWINS)
def test_keys_of_other_protocols_are_shown_as_text(twin):
    keys = [None, b"", b"plain", "ключ".encode(), b"\xff\xfe", b'a"b\\c\n\x01\x1f\x7f']
    data = bytes(encode_batch([Event(key, None, (), 1_700_000_000_001) for key in keys]))
    found = twin.RecordList(pure.JSON, 0, 100, 1000, None, False)
    found.take(data, 0, 0, 100)
    records = json.loads(found.body(b"", 0))["Records"]
    assert [record["PartitionKey"] for record in records] == ["-", "", "plain", "ключ", "base64://4=", 'a"b\\c\n\x01\x1f\x7f']
    assert {record["Data"] for record in records} == {""}
    assert {record["ApproximateArrivalTimestamp"] for record in records} == {1_700_000_000.001}
    found = twin.RecordList(pure.JSON, 0, 100, 1000, None, True)
    found.take(data, 0, 0, 1)
    assert "PartitionKey" not in json.loads(found.body(b"", 0))["Records"][0]


@pytest.mark.parametrize("twin", TWINS)
def test_one_record_is_given_however_large_it_is_and_no_more_than_the_limits(twin):
    data = bytes(encode_batch([Event(b"k", b"x" * 1000, (), 1) for _ in range(5)]))
    for limit, max_bytes, count, following in ((10, 1, 1, 1), (10, 2002, 2, 2), (3, 10_000, 3, 3), (5, 10_000, 5, 5)):
        found = twin.RecordList(pure.JSON, 0, limit, max_bytes, None, False)
        found.take(data, 0, 0, 100)
        assert (found.count, found.next_offset, found.full) == (count, following, count < 5)
