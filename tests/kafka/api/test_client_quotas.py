"""DescribeClientQuotas and AlterClientQuotas. Codes and texts are those that Apache Kafka 4.3.1 gave to the same requests."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.kafka.codec.errors import ErrorCode as E
from headrace.kafka.messages import alter_client_quotas as alter_messages
from headrace.kafka.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

EXACT, DEFAULT, SPECIFIED = 0, 1, 2

Parts = dict[str, str | None]


def alter(api: Any, *entries: tuple[Parts, dict[str, float | None]], version: int = 1, validate_only: bool = False) -> Any:
    request = alter_messages.AlterClientQuotasRequest(
        entries=[
            alter_messages.EntryData(
                entity=[alter_messages.EntityData(entity_type=kind, entity_name=name) for kind, name in parts.items()],
                ops=[alter_messages.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
            )
            for parts, values in entries
        ],
        validate_only=validate_only,
    )
    answer = api(request, version)
    return [({p.entity_type: p.entity_name for p in e.entity}, e.error_code, e.error_message) for e in answer.entries]


def describe(api: Any, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
    asked = [ComponentData(entity_type=kind, match_type=how, match=match) for kind, how, match in components]
    answer = api(DescribeClientQuotasRequest(components=asked, strict=strict), version)
    if answer.entries is None:
        return answer.error_code, answer.error_message
    assert (answer.error_code, answer.error_message) == (E.NONE, None)
    return [
        ({p.entity_type: p.entity_name for p in entry.entity}, {v.key: v.value for v in entry.values})
        for entry in answer.entries
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_quotas_are_set_found_and_removed(api: Any, version: int) -> None:
    both: Parts = {"client-id": "c", "user": None}
    assert alter(api, (both, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}), version=version) == [(both, 0, None)]
    assert describe(api, version=version) == [(both, {"producer_byte_rate": 1000.0, "request_percentage": 12.5})]
    assert describe(api, ("user", DEFAULT, None), ("client-id", EXACT, "c"), strict=True) != []
    assert describe(api, ("user", SPECIFIED, None), strict=True) == []
    alter(api, (both, {"producer_byte_rate": None, "nothing": None}))
    assert describe(api) == [(both, {"request_percentage": 12.5})]
    alter(api, (both, {"request_percentage": None}))
    assert describe(api) == []


def test_a_trial_and_a_refusal_change_nothing(api: Any) -> None:
    assert alter(api, ({"user": "u"}, {"producer_byte_rate": 5.0}), validate_only=True) == [({"user": "u"}, 0, None)]
    refused = alter(api, ({"user": "u"}, {"producer_byte_rate": 1.5}))
    assert refused == [({"user": "u"}, E.INVALID_REQUEST, "producer_byte_rate cannot be a fractional value.")]
    assert describe(api) == []


@pytest.mark.parametrize(
    ("components", "code", "text"),
    [
        ([("", EXACT, "x")], E.INVALID_REQUEST, "Invalid empty entity type."),
        ([("tribe", EXACT, "x")], E.UNSUPPORTED_VERSION, "Unsupported entity type tribe"),
        ([("user", 7, None)], E.INVALID_REQUEST, "Unknown match type 7"),
        ([("user", EXACT, None)], E.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null."),
        (
            [("user", DEFAULT, "x")],
            E.INVALID_REQUEST,
            "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.",
        ),
        (
            [("user", SPECIFIED, "x")],
            E.INVALID_REQUEST,
            "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.",
        ),
        (
            [("user", EXACT, "x"), ("user", DEFAULT, None)],
            E.INVALID_REQUEST,
            "Entity type user cannot appear more than once in the filter.",
        ),
        (
            [("ip", EXACT, "1.2.3.4"), ("user", DEFAULT, None)],
            E.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
            "component.",
        ),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(api: Any, components: Any, code: int, text: str) -> None:
    assert describe(api, *components) == (code, text)
