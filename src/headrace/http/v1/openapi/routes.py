"""Webhooks that come in, described. (Routes are operations, which describe themselves.)"""

from __future__ import annotations

from headrace.http.v1.openapi.described import ANYTHING, Content, Described, Schema, record

_JSON = "application/json"

SCHEMAS: dict[str, Schema] = {}

DESCRIBED = (
    Described(
        "POST", "/v1/receive/{route}", "webhooks", "Takes a webhook",
        {200: Content("It is durable, or was before.", {_JSON: record(("status",), status={"enum": ["stored", "known"]})})},
        body=Content("Whatever the sender sends.", {"*/*": ANYTHING}), problems=(401, 404, 408, 413, 503),
        description="Nobody logs in: the signature of the sender says who it is, by the scheme of the route's source.",
        public=True,
    ),
)  # fmt: skip
