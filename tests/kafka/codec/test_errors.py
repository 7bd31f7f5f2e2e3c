"""Error codes: complete, without gaps, and with words of their own."""

from headrace.kafka.codec.errors import ErrorCode


def test_codes_run_without_gap_from_unknown_to_the_last_of_kafka_4_3() -> None:
    assert [code.value for code in ErrorCode] == list(range(-1, 134))


def test_a_code_is_found_by_number_and_is_a_number() -> None:
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == 3


def test_every_code_has_a_sentence_of_its_own() -> None:
    messages = [code.message for code in ErrorCode]
    assert all(message.endswith(".") for message in messages)
    assert len(set(messages)) == len(messages)


def test_what_a_client_may_simply_try_again() -> None:
    for code in (ErrorCode.NOT_COORDINATOR, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE):
        assert code.retriable
    for code in (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.TOPIC_ALREADY_EXISTS):
        assert not code.retriable
