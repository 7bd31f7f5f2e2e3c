import random

import pytest

from headrace.client.kafka.partitioner import StickyChoice, murmur2, partition_for_key


# The values that Kafka's own UtilsTest.testMurmur2 expects.
@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_the_one_that_kafka_uses(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_the_hash_is_made_positive_by_its_low_31_bits() -> None:
    assert partition_for_key(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_an_empty_key_is_a_key() -> None:
    assert partition_for_key(b"", 7) == (murmur2(b"") & 0x7FFFFFFF) % 7


def test_a_sticky_choice_stays_until_moved_and_then_is_another_one() -> None:
    choice = StickyChoice(3, random.Random(1))
    seen = set()
    for _ in range(50):
        before = choice.current
        assert choice.current == before
        choice.move()
        assert choice.current != before
        seen.add(choice.current)
    assert seen == {0, 1, 2}


def test_a_topic_with_one_partition_has_no_other_choice() -> None:
    choice = StickyChoice(1, random.Random(1))
    choice.move()
    assert choice.current == 0
