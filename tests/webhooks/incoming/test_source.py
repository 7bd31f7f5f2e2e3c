"""The source of a route with a receive URL, as people write it."""

from __future__ import annotations

import pytest

from headrace.broker.routes.definition import RouteDefinition
from headrace.broker.routes.ends.receiving import WebhookSource
from headrace.broker.routes.errors import InvalidRoute

SECRET = "0123456789abcdef"
WHSEC = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def of(**members: object) -> WebhookSource:
    return WebhookSource.of({"type": "webhook", **members})


@pytest.mark.parametrize(
    "members",
    [
        {"scheme": "standard", "secrets": [WHSEC, {"secret": WHSEC, "until_ms": 7}], "tolerance_s": 60},
        {"scheme": "github", "secrets": [SECRET], "headers": ["X-GitHub-Event"], "key_header": "X-Github-Hook-Id"},
        {"scheme": "stripe", "secrets": [SECRET], "max_bytes": 5},
        {"scheme": "slack", "secrets": [SECRET]},
        {"scheme": "hmac", "secrets": [SECRET], "header": "X-A", "algorithm": "sha1", "encoding": "base64", "prefix": "p="},
        {"scheme": "token", "secrets": [SECRET], "header": "Authorization", "prefix": "Bearer ", "id_header": "X-Id"},
        {"scheme": "none", "remember_s": 0, "id_header": "X-Id"},
    ],
)
def test_a_source_is_stored_as_it_is_and_shown_without_its_secrets(members):
    source = of(**members)
    assert WebhookSource.of(source.json()) == source
    assert "secrets" not in source.shown()
    assert SECRET not in repr(source)
    assert WHSEC not in repr(source)
    again = WebhookSource.of(source.shown()).completed(source)
    assert again == source


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({}, "scheme"),
        ({"scheme": "md5"}, "scheme"),
        ({"scheme": "none", "secrets": [SECRET]}, "secrets"),
        ({"scheme": "standard", "secrets": ["whsec_short"]}, "secret"),
        ({"scheme": "standard", "secrets": SECRET}, "list"),
        ({"scheme": "standard", "header": "x"}, "header"),
        ({"scheme": "github", "secrets": ["short"]}, "characters"),
        ({"scheme": "github", "secrets": [SECRET + "é"]}, "characters"),
        ({"scheme": "github", "secrets": [SECRET] * 6}, "at most"),
        ({"scheme": "github", "secrets": [7]}, "texts"),
        ({"scheme": "hmac", "secrets": [SECRET]}, "signature"),
        ({"scheme": "hmac", "secrets": [SECRET], "header": "a b"}, "name"),
        ({"scheme": "hmac", "secrets": [SECRET], "header": "a", "algorithm": "md5"}, "algorithm"),
        ({"scheme": "hmac", "secrets": [SECRET], "header": "a", "encoding": "rot13"}, "encoding"),
        ({"scheme": "token", "secrets": [SECRET]}, "token"),
        ({"scheme": "token", "secrets": [SECRET], "header": "x-t", "headers": ["X-T"]}, "secret"),
        ({"scheme": "none", "headers": ["Authorization"]}, "secret"),
        ({"scheme": "none", "headers": ["a\nb"]}, "name"),
        ({"scheme": "none", "max_bytes": 0}, "max_bytes"),
        ({"scheme": "none", "max_bytes": 1 << 30}, "max_bytes"),
        ({"scheme": "none", "remember_s": -1}, "remember_s"),
        ({"scheme": "none", "tolerence_s": 5}, "tolerence_s"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_member_that_is_wrong(members, text):
    with pytest.raises(InvalidRoute, match=text):
        of(**members)


def test_a_secret_is_made_where_the_other_side_takes_ours():
    for scheme, more in (("standard", {}), ("github", {}), ("hmac", {"header": "x"}), ("token", {"header": "x"})):
        first, second = of(scheme=scheme, **more).completed(None), of(scheme=scheme, **more).completed(None)
        assert len(first.secrets) == 1
        assert first.secrets != second.secrets
        assert WebhookSource.of(first.json()) == first
    for scheme in ("stripe", "slack"):
        with pytest.raises(InvalidRoute, match=scheme):
            of(scheme=scheme).completed(None)
    assert of(scheme="none").completed(None).secrets == ()


def test_the_secrets_of_one_scheme_are_not_those_of_another():
    before = of(scheme="github", secrets=[SECRET])
    assert of(scheme="github").completed(before).secrets == before.secrets
    assert of(scheme="hmac", header="x").completed(before).secrets != before.secrets


def test_such_a_route_fills_a_topic_and_nothing_else():
    given = {"source": {"type": "webhook", "scheme": "none"}, "destination": {"type": "topic", "topic": "t"}}
    assert RouteDefinition.of("r", given).inbound
    with pytest.raises(InvalidRoute, match="one end"):
        RouteDefinition.of("r", {**given, "destination": {"type": "exchange", "exchange": "x"}})
