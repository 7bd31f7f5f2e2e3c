"""Publishing, reading, streams and sockets, described."""

from __future__ import annotations

from headrace.http.v1.openapi.described import (
    ANYTHING,
    NUMBER,
    TEXT,
    Content,
    Described,
    In,
    Schema,
    list_of,
    record,
    reference,
)

_JSON, _LINES = "application/json", "application/x-ndjson"
_EVENTS = "/v1/topics/{topic}/events"

_BYTES: Schema = {"type": "string", "contentEncoding": "base64"}
_HEADER_TEXT: Schema = {"oneOf": [{"type": ["string", "null"]}, record(("base64",), base64=_BYTES)]}
_PAIRS = list_of({"type": "array", "prefixItems": [_HEADER_TEXT, _HEADER_TEXT], "minItems": 2, "maxItems": 2})
_VALUE = "Text as a string, other JSON as it is, null for no value (a deletion in a compacted topic)."

SCHEMAS: dict[str, Schema] = {
    "Event": {
        **record(
            ("partition", "offset", "timestamp", "headers"),
            partition=NUMBER,
            offset=NUMBER,
            timestamp={**NUMBER, "description": "Milliseconds since 1970."},
            key={"type": ["string", "null"]},
            key_base64={**_BYTES, "description": "In place of `key`, for bytes that are not UTF-8."},
            value={"description": _VALUE},
            value_base64={**_BYTES, "description": "In place of `value`, for bytes that are not UTF-8."},
            headers={**_PAIRS, "description": "Pairs of name and value, in their order."},
        ),
        "description": "An event as it is read.",
    },
    "NewEvent": {
        **record(
            key={"type": ["string", "integer", "null"]},
            key_base64=_BYTES,
            value={"description": _VALUE},
            value_base64=_BYTES,
            headers={"oneOf": [{"type": "object"}, _PAIRS, {"type": "null"}]},
            timestamp={"type": ["integer", "string", "null"], "description": "Milliseconds since 1970, or RFC 3339."},
            partition={"type": ["integer", "null"]},
            offset={"type": ["integer", "null"], "description": "Passed over."},
        ),
        "additionalProperties": False,
        "oneOf": [{"required": ["value"]}, {"required": ["value_base64"]}],
        "description": "An event as it is published.",
    },
    "Stored": record(("partition", "offset", "timestamp"), partition=NUMBER, offset=NUMBER, timestamp=NUMBER),
    "StoredLines": record(
        ("count", "partitions"),
        count=NUMBER,
        partitions=list_of(record((), partition=NUMBER, count=NUMBER, first_offset=NUMBER, last_offset=NUMBER)),
    ),
    "Page": record(
        ("events", "next", "partitions", "notices"),
        events=list_of(reference("Event")),
        next={**TEXT, "description": "The position to go on from."},
        partitions=list_of(record((), partition=NUMBER, start=NUMBER, end=NUMBER, next=NUMBER)),
        notices=list_of({**record(("notice",), notice=TEXT), "description": "A gap, for instance."}),
    ),
    "SocketMessage": {
        **record(("type",), type=TEXT),
        "description": "See the documentation of the WebSocket: subscribe, credit, unsubscribe, publish and ping; subscribed, "
        "events, notice, unsubscribed, published, error, pong and heartbeat.",
    },
}

_FROM = In(
    "from",
    "earliest, latest, an offset, -N for the last N, or a time such as 2026-03-01T09:30:00Z.",
    {"type": ["string", "integer"]},
)
_START = (
    _FROM,
    In("position", "Where an earlier answer or event said that the next one is; goes before `from`."),
    In("partition", "One partition instead of all.", NUMBER),
    In("filter", "A condition on records, in CEL."),
)
_LAST = In("Last-Event-ID", "The id of the last event that was seen; goes before everything else.", place="header")

DESCRIBED = (
    Described(
        "POST", _EVENTS, "events", "Publishes events",
        {
            200: Content("They are as durable as the topic promises.",
                         {_JSON: {"oneOf": [reference("Stored"), record(("events",), events=list_of(reference("Stored"))),
                                            reference("StoredLines")]}}),
            202: Content("With acks=0: whatever becomes of them."),
        },
        (
            In("acks", "all (the default), 1 or 0.", {"enum": ["all", "1", "0"]}),
            In("partition", "For events that don't name theirs.", NUMBER),
            In("key", "Of a body that is the value."),
            In("timestamp", "The same."),
            In("header", "The same: name:value, as often as needed.", list_of(TEXT)),
            In("Idempotency-Key", "The same key, the same events: they are stored once.", place="header"),
            In("Headrace-Key", "As `key`.", place="header"),
            In("Headrace-Partition", "As `partition`.", NUMBER, "header"),
            In("Headrace-Timestamp", "As `timestamp`.", place="header"),
        ),
        Content("One event, many, or just a value.",
                {_JSON: {"oneOf": [reference("NewEvent"), list_of(reference("NewEvent")),
                                   record(("events",), events=list_of(reference("NewEvent")))]},
                 _LINES: reference("NewEvent"), "*/*": {}}),
        (404, 408, 409, 411, 413, 415, 422, 503),
        "JSON is one event, a list of them, or an object with `events`; NDJSON a stream of any length; any other body is a "
        "value, byte for byte.",
    ),
    Described(
        "GET", _EVENTS, "events", "Reads events",
        {200: Content("A page of them; or a line for each.", {_JSON: reference("Page"), _LINES: reference("Event")})},
        (
            *_START,
            In("offset", "The same as `from`.", NUMBER),
            In("limit", "At most so many events.", NUMBER),
            In("max_bytes", "At most about so many bytes.", NUMBER),
            In("wait_s", "How long to wait if there is nothing.", {"type": "number"}),
            In("format", "How keys and values are shown.", {"enum": ["auto", "text", "base64"]}),
            In("follow", "Whether a stream of lines goes on for ever.", {"type": "boolean"}),
        ),
        problems=(404, 503),
    ),
    Described(
        "GET", "/v1/topics/{topic}/partitions/{partition}/events/{offset}", "events", "Reads one event",
        {200: Content("The event; or its value alone.", {_JSON: reference("Event"), "*/*": ANYTHING})},
        (In("format", "How key and value are shown.", {"enum": ["auto", "text", "base64"]}),), problems=(404,),
    ),
    Described(
        "GET", "/v1/topics/{topic}/stream", "streams", "Follows a topic (server-sent events)",
        {200: Content("Events without a name are records; gap, reset, unreadable, error and end are notices.",
                      {"text/event-stream": TEXT}),
         204: Content("The topic was deleted: don't come back.")},
        (*_START, _LAST), problems=(404, 503),
        description="`id` is the position in all partitions: an EventSource that comes back gets what follows.",
    ),
    Described(
        "GET", "/v1/topics/{topic}/socket", "streams", "A WebSocket for one topic",
        {101: Content("Messages of JSON, both ways: see `SocketMessage`.")}, _START, problems=(404, 426, 503),
        description="With `from` or `position` it is subscribed from the start.",
    ),
    Described(
        "GET", "/v1/socket", "streams", "A WebSocket for many topics",
        {101: Content("Messages of JSON, both ways: see `SocketMessage`.")}, problems=(426, 503),
    ),
)  # fmt: skip
