"""GetCallerIdentity of AWS's Security Token Service, on the same port: programs ask it which account they are in, for ARNs.

It comes in AWS's query protocol, a form with `Action=GetCallerIdentity`, and is answered in XML. Nothing else of that service
is here.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

FORM = b"application/x-www-form-urlencoded"
ACTION = b"Action=GetCallerIdentity"
MAX_FIELDS = 20


def is_asked(content_type: bytes, body: bytes) -> bool:
    if content_type != FORM or ACTION not in body:
        return False
    try:
        fields = dict(parse_qsl(body.decode("latin-1"), max_num_fields=MAX_FIELDS))
    except ValueError:
        return False
    return fields.get("Action") == "GetCallerIdentity"


def identity_body(account: str, request_id: bytes) -> bytes:
    return (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">\n'
        "  <GetCallerIdentityResult>\n"
        f"    <Arn>arn:aws:iam::{account}:root</Arn>\n"
        f"    <UserId>{account}</UserId>\n"
        f"    <Account>{account}</Account>\n"
        "  </GetCallerIdentityResult>\n"
        f"  <ResponseMetadata><RequestId>{request_id.decode()}</RequestId></ResponseMetadata>\n"
        "</GetCallerIdentityResponse>\n"
    ).encode()
