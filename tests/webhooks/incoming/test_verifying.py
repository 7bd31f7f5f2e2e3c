"""Who sent a request: true signatures of each kind are taken, and whatever is changed about them is not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from headrace.broker.routes.ends.receiving import WebhookSource
from headrace.broker.routes.ends.secrets import Secret
from headrace.webhooks.verifying import Verified, scheme_of

NOW_S = 1_800_000_000
NOW_MS = NOW_S * 1000
SECRET = "0123456789abcdef-a-secret"
OTHER = "fedcba9876543210-another"
WHSEC = Secret.new().secret
BODY = b'{"id": "evt_1", "event_id": "Ev1", "amount": 5}'


def source(scheme: str, *secrets: object, **more: object) -> WebhookSource:
    return WebhookSource.of({"type": "webhook", "scheme": scheme, "secrets": list(secrets), **more})


def verified(of: WebhookSource, headers: dict[str, str], body: bytes = BODY, now_ms: int = NOW_MS) -> Verified | None:
    scheme = scheme_of(of)
    return scheme.verify(headers, body, now_ms) if scheme.is_complete(headers) else None


def signed(secret: str, content: bytes, algorithm: str = "sha256") -> str:
    return hmac.new(secret.encode(), content, algorithm).hexdigest()


def standard(body: bytes = BODY, secret: str = WHSEC, identity: str = "msg_1", time_s: int = NOW_S) -> dict[str, str]:
    """Signed by the library that others use."""
    signature = Webhook(secret).sign(identity, datetime.fromtimestamp(time_s, UTC), body.decode())
    return {"webhook-id": identity, "webhook-timestamp": str(time_s), "webhook-signature": signature}


def github(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + signed(secret, body), "x-github-delivery": "d-1"}


def stripe(body: bytes = BODY, secret: str = SECRET, time_s: int = NOW_S) -> dict[str, str]:
    return {"stripe-signature": f"t={time_s},v0=abc,v1={signed(secret, b'%d.%b' % (time_s, body))}"}


def slack(body: bytes = BODY, secret: str = SECRET, time_s: int = NOW_S) -> dict[str, str]:
    signature = signed(secret, b"v0:%d:%b" % (time_s, body))
    return {"x-slack-signature": f"v0={signature}", "x-slack-request-timestamp": str(time_s)}


HMAC = {"header": "X-Signature", "algorithm": "sha512", "prefix": "sig=", "id_header": "X-Id"}


def own_hmac(body: bytes = BODY, secret: str = SECRET) -> dict[str, str]:
    return {"x-signature": "sig=" + signed(secret, body, "sha512"), "x-id": "7"}


TRUE = [
    (source("standard", WHSEC), standard(), Verified("msg_1", NOW_S)),
    (source("github", SECRET), github(), Verified("d-1")),
    (source("stripe", SECRET), stripe(), Verified("evt_1", NOW_S)),
    (source("slack", SECRET), slack(), Verified("Ev1", NOW_S)),
    (source("hmac", SECRET, **HMAC), own_hmac(), Verified("7")),
    (source("token", SECRET, header="X-Gitlab-Token"), {"x-gitlab-token": SECRET}, Verified()),
    (source("token", SECRET, header="Authorization", prefix="Bearer "), {"authorization": f"Bearer {SECRET}"}, Verified()),
]


@pytest.mark.parametrize(("of", "headers", "wanted"), TRUE, ids=lambda value: getattr(value, "scheme", ""))
def test_a_true_signature_is_taken(of, headers, wanted):
    assert verified(of, headers) == wanted


@pytest.mark.parametrize(("of", "headers", "wanted"), TRUE, ids=lambda value: getattr(value, "scheme", ""))
def test_whatever_is_changed_is_not_taken(of, headers, wanted):
    assert verified(of, {}) is None
    if of.scheme != "token":
        assert verified(of, headers, BODY + b" ") is None
        assert verified(of, headers, b"") is None
    unsigned = {"x-github-delivery", "x-id"}
    for name in headers.keys() - unsigned:
        value = headers[name]
        place = len(value) - 10  # within the signature, the time or the token
        another = "b" if value[place] == "a" else "a"
        for forged in ("", value[:-4], value + "0", value[:place] + another + value[place + 1 :], "é" * 64):
            assert verified(of, {**headers, name: forged}) is None, (name, forged)
        assert verified(of, {other: value for other, value in headers.items() if other != name}) is None


@pytest.mark.parametrize(("scheme", "sign"), [("standard", standard), ("github", github), ("stripe", stripe), ("slack", slack)])
def test_each_of_several_secrets_is_good_until_it_ends(scheme, sign):
    old, new = (WHSEC, Secret.new().secret) if scheme == "standard" else (SECRET, OTHER)
    of = source(scheme, new, {"secret": old, "until_ms": NOW_MS + 1})
    assert verified(of, sign(secret=old)) is not None
    assert verified(of, sign(secret=new)) is not None
    assert verified(of, sign(secret=old), now_ms=NOW_MS + 1) is None
    assert verified(of, sign(secret=new), now_ms=NOW_MS + 1) is not None
    assert verified(source(scheme, new), sign(secret=old)) is None


@pytest.mark.parametrize(("scheme", "sign"), [("standard", standard), ("stripe", stripe), ("slack", slack)])
@pytest.mark.parametrize(
    ("skew_s", "good"), [(0, True), (300, True), (-300, True), (301, False), (-301, False), (-86400, False)]
)
def test_a_signed_time_is_good_for_five_minutes(scheme, sign, skew_s, good):
    of = source(scheme, WHSEC if scheme == "standard" else SECRET)
    assert (verified(of, sign(time_s=NOW_S + skew_s)) is not None) is good


def test_the_tolerance_can_be_less():
    of = source("standard", WHSEC, tolerance_s=10)
    assert verified(of, standard(time_s=NOW_S - 10)) is not None
    assert verified(of, standard(time_s=NOW_S - 11)) is None


def test_several_signatures_may_be_in_one_header():
    of = source("standard", WHSEC)
    good = standard()
    forged = "v1," + base64.b64encode(hashlib.sha256(b"x").digest()).decode()
    for signatures, taken in (
        (f"{forged} {good['webhook-signature']}", True),
        (f"v1a,abc {good['webhook-signature']} {forged}", True),
        (f"v2{good['webhook-signature'][2:]}", False),
        (" ".join([forged] * 16 + [good["webhook-signature"]]), False),  # no more than 16 are looked at
        (good["webhook-signature"].replace(",", " "), False),
    ):
        assert (verified(of, {**good, "webhook-signature": signatures}) is not None) is taken


def test_the_names_that_svix_gives_the_headers_are_taken_too():
    headers = {name.replace("webhook", "svix"): value for name, value in standard().items()}
    assert verified(source("standard", WHSEC), headers) == Verified("msg_1", NOW_S)


@pytest.mark.parametrize("time", ["", "now", "1.8e9", "-1", "+1800000000", "01800000000", "１８０００００００００", "9" * 30])
def test_a_time_that_is_none_is_not_taken(time):
    assert verified(source("standard", WHSEC), {**standard(), "webhook-timestamp": time}) is None


@pytest.mark.parametrize("identity", ["", "x" * 257, "é", "a\x00"])
def test_an_id_that_is_none_is_not_taken(identity):
    headers = standard()
    body = BODY
    key = base64.b64decode(WHSEC.removeprefix("whsec_"))
    signature = hmac.digest(key, identity.encode() + b".%d." % NOW_S + body, "sha256")
    headers |= {"webhook-id": identity, "webhook-signature": "v1," + base64.b64encode(signature).decode()}
    assert verified(source("standard", WHSEC), headers) is None


@pytest.mark.parametrize("encoding", ["hex", "base64", "base64url"])
def test_an_hmac_of_the_body_in_each_encoding(encoding):
    of = source("hmac", SECRET, header="X-S", encoding=encoding)
    for number in range(30):  # some of them have the characters in which the encodings differ
        body = b"%d" % number
        digest = hmac.digest(SECRET.encode(), body, "sha256")
        text = {
            "hex": digest.hex(),
            "base64": base64.b64encode(digest).decode(),
            "base64url": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        }[encoding]
        assert verified(of, {"x-s": text}, body) == Verified()


def test_a_body_that_is_no_json_has_no_id():
    for body in (b"", b"\xff", b"[]", b'{"id": 5}', b'{"id": ""}', b"[" * 100_000, json.dumps({"id": "x" * 300}).encode()):
        assert verified(source("stripe", SECRET), stripe(body), body) == Verified(None, NOW_S)


@given(
    st.dictionaries(st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text(max_size=80)),
    st.binary(max_size=50),
)
def test_what_nobody_signed_is_never_taken(headers, body):
    assert verified(source("standard", WHSEC), headers, body) is None


@given(st.sampled_from(TRUE), st.text(max_size=60), st.binary(max_size=40))
def test_no_header_makes_verifying_fail_in_another_way(case, text, body):
    of, headers, _ = case
    for name in headers:
        verified(of, {**headers, name: text}, body)
