"""Resource policies: what lets another account use a stream or a consumer.

A policy is a JSON document in IAM's language. Of it, statements with Effect, Principal, Action and Resource are understood,
with `*` and `?` in actions and resources; what denies wins over what allows. A statement with a Condition, NotPrincipal,
NotAction or NotResource allows nothing here (and one that denies denies): who can't be sure says no.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.kinesis.errors import ACCESS_DENIED, KinesisError, invalid_argument

if TYPE_CHECKING:
    from headrace.kinesis.service import RawCall

MAX_POLICY_CHARS = 20_480
_NOT_UNDERSTOOD = ("Condition", "NotPrincipal", "NotAction", "NotResource")


def check_policy(text: str) -> None:
    """Whether it can be stored; raises KinesisError."""
    if len(text) > MAX_POLICY_CHARS:
        raise invalid_argument(f"The policy exceeds the maximum of {MAX_POLICY_CHARS} characters.")
    try:
        policy = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise invalid_argument("The policy is not valid JSON.") from None
    if not isinstance(policy, dict):
        raise invalid_argument("The policy is not a JSON object.")


def check_allowed(call: RawCall, policy: str | None, arn: str) -> None:
    """Raises KinesisError unless the policy lets the caller's account do what is asked."""
    action = f"kinesis:{call.name}"
    effects = _effects(policy, call.account, action, arn) if policy is not None else set()
    if effects != {"Allow"}:
        raise KinesisError(
            ACCESS_DENIED,
            f"User: arn:aws:iam::{call.account}:root is not authorized to perform: {action} on resource: {arn} "
            f"because no resource-based policy allows the {action} action",
        )


def _effects(policy: str, account: str, action: str, arn: str) -> set[str]:
    document = msgspec.json.decode(policy.encode())
    statements = document.get("Statement", [])
    found = set()
    for statement in statements if isinstance(statements, list) else [statements]:
        if not isinstance(statement, dict):
            continue
        effect = statement.get("Effect")
        unsure = any(name in statement for name in _NOT_UNDERSTOOD)
        if effect == "Deny" and unsure:
            found.add("Deny")
        elif effect in ("Allow", "Deny") and not unsure and _concerns(statement, account, action, arn):
            found.add(effect)
    return found


def _concerns(statement: dict[str, Any], account: str, action: str, arn: str) -> bool:
    actions = [text.lower() for text in _texts(statement.get("Action"))]
    return (
        _names(statement.get("Principal"), account)
        and any(fnmatchcase(action.lower(), pattern.replace("[", "[[]")) for pattern in actions)
        and any(fnmatchcase(arn, pattern.replace("[", "[[]")) for pattern in _texts(statement.get("Resource")))
    )


def _names(principal: Any, account: str) -> bool:
    if isinstance(principal, dict):
        principal = principal.get("AWS")
    return any(
        text in ("*", account) or (text.startswith("arn:") and text.split(":")[4:5] == [account]) for text in _texts(principal)
    )


def _texts(value: Any) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
