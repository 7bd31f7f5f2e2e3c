"""As much of Amazon CloudWatch as programs around Kinesis ask for, on the same port: GetMetricStatistics for what goes into and
out of a stream, and PutMetricData, which is accepted and dropped (the producer and client libraries send it).

All three protocols of that service: JSON 1.0, RPC v2 CBOR and the older query protocol with its forms and XML. Metrics are
those of the namespace AWS/Kinesis with the dimension StreamName alone (`METRICS`), from `usage`. Others have no data points, as
with CloudWatch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from headrace.kinesis.codec.bodies import Undecodable, decode, encode
from headrace.kinesis.codec.encoding import Encoding, Moment
from headrace.kinesis.errors import KinesisError
from headrace.kinesis.usage import Minute, Samples

if TYPE_CHECKING:
    from headrace.kinesis.usage import Usage
    from headrace.web.exchange import Exchange

SERVICE = "monitoring"
TARGET_PREFIX = b"GraniteServiceVersion20100801."
RPC_PATH = b"/service/GraniteServiceVersion20100801/operation/"
FORM = b"application/x-www-form-urlencoded"
JSON_1_0 = b"application/x-amz-json-1.0"
OPERATIONS = frozenset({"GetMetricStatistics", "PutMetricData"})
NAMESPACE = "AWS/Kinesis"
MAX_FIELDS = 2000
MAX_DATAPOINTS = 1440

METRICS: dict[str, tuple[str, Callable[[Minute], Samples]]] = {
    "IncomingBytes": ("Bytes", lambda minute: minute.bytes_in),
    "IncomingRecords": ("Count", lambda minute: minute.records_in),
    "OutgoingBytes": ("Bytes", lambda minute: minute.bytes_out),
    "OutgoingRecords": ("Count", lambda minute: minute.records_out),
    "GetRecords.Bytes": ("Bytes", lambda minute: minute.bytes_out),
    "GetRecords.Records": ("Count", lambda minute: minute.records_out),
    "PutRecords.Bytes": ("Bytes", lambda minute: minute.bytes_in),
    "PutRecords.Records": ("Count", lambda minute: minute.records_in),
}
_STATISTICS: dict[str, Callable[[Samples], float]] = {
    "Sum": lambda samples: samples.total,
    "Average": lambda samples: samples.total / samples.count,
    "Minimum": lambda samples: samples.least,
    "Maximum": lambda samples: samples.most,
    "SampleCount": lambda samples: samples.count,
}
_MEMBER = re.compile(r"(\w+)\.member\.(\d{1,3})(?:\.(\w+))?")


class Asked:
    """A request to CloudWatch; `encoding` is None for the query protocol."""

    __slots__ = ("body", "content_type", "encoding", "name")

    def __init__(self, name: str, encoding: Encoding | None, content_type: bytes, body: bytes) -> None:
        self.name = name
        self.encoding = encoding
        self.content_type = content_type
        self.body = body

    def answer(self, usage: Usage, account: str, region: str) -> bytes:
        """Raises KinesisError."""
        given = _given(self.body, self.encoding)
        if self.name == "PutMetricData":
            return encode({}, self.encoding) if self.encoding is not None else _xml(self.name, "")
        label, datapoints = statistics(usage, account, region, given)
        if self.encoding is not None:
            return encode({"Label": label, "Datapoints": datapoints}, self.encoding)
        members = "".join(f"<member>{''.join(map(_element, point.items()))}</member>" for point in datapoints)
        return _xml(self.name, f"<Label>{escape(label)}</Label><Datapoints>{members}</Datapoints>")

    def error_body(self, error: KinesisError) -> bytes:
        if self.encoding is not None:
            return encode({"__type": error.code, "message": error.message or ""}, self.encoding)
        inside = f"<Type>Sender</Type><Code>{error.code}</Code><Message>{escape(error.message or '')}</Message>"
        return f"<ErrorResponse><Error>{inside}</Error></ErrorResponse>\n".encode()


def asked_of(exchange: Exchange, content_type: bytes, body: bytes) -> Asked | None:
    """None: not for CloudWatch, or an operation that is not here."""
    target = exchange.header(b"x-amz-target") or b""
    found: Asked | None = None
    if exchange.target.startswith(RPC_PATH):
        name = exchange.target[len(RPC_PATH) :].partition(b"?")[0].decode("latin-1")
        found = Asked(name, Encoding.RPC, Encoding.RPC.content_type, body)
    elif target.startswith(TARGET_PREFIX):
        found = Asked(target[len(TARGET_PREFIX) :].decode("latin-1"), Encoding.JSON, JSON_1_0, body)
    elif content_type == FORM:
        action = re.search(rb"(?:^|&)Action=(\w{1,50})(?:&|$)", body)
        found = None if action is None else Asked(action[1].decode(), None, b"text/xml", body)
    return found if found is not None and found.name in OPERATIONS else None


def statistics(usage: Usage, account: str, region: str, given: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """The label and the data points, by time. Raises KinesisError."""
    for name in ("Namespace", "MetricName", "StartTime", "EndTime", "Period"):
        if given.get(name) is None:
            raise KinesisError("MissingParameter", f"The parameter {name} is required.")
    metric, wanted = str(given["MetricName"]), _texts(given.get("Statistics"))
    start_ms, end_ms, period_ms = _ms(given["StartTime"]), _ms(given["EndTime"]), _period_ms(given["Period"])
    if start_ms >= end_ms:
        raise KinesisError("InvalidParameterValue", "The parameter StartTime must be less than the parameter EndTime.")
    if not wanted or not set(wanted) <= set(_STATISTICS):
        raise KinesisError("InvalidParameterValue", f"The parameter Statistics must name some of {', '.join(_STATISTICS)}.")
    if metric not in METRICS or given["Namespace"] != NAMESPACE:
        return metric, []
    unit, samples_of = METRICS[metric]
    stream = _stream_name(given.get("Dimensions"))
    start_ms -= start_ms % 60_000
    found: dict[int, Samples] = {}
    for minute in usage.minutes(account, region, stream) if stream is not None else ():
        samples = samples_of(minute)
        if samples.count and start_ms <= minute.began_ms < end_ms:
            began_ms = start_ms + (minute.began_ms - start_ms) // period_ms * period_ms
            found.setdefault(began_ms, Samples()).merge(samples)
    return metric, [
        {
            "Timestamp": Moment(began_ms),
            **{name: float(_STATISTICS[name](samples)) for name in wanted},
            "Unit": unit,
        }
        for began_ms, samples in sorted(found.items())[:MAX_DATAPOINTS]
    ]


def _given(body: bytes, encoding: Encoding | None) -> dict[str, Any]:
    try:
        data = decode(body or b"{}", encoding) if encoding is not None else _form(body)
    except (Undecodable, ValueError):
        data = None
    if not isinstance(data, dict):
        raise KinesisError("SerializationException")
    return data


def _form(body: bytes) -> dict[str, Any]:
    """`Dimensions.member.1.Name=…` as a list of maps, `Statistics.member.1=…` as a list."""
    plain: dict[str, Any] = {}
    lists: dict[str, dict[int, Any]] = {}
    for name, value in parse_qsl(body.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_FIELDS):
        member = _MEMBER.fullmatch(name)
        if member is None:
            plain[name] = value
        elif member[3] is None:
            lists.setdefault(member[1], {})[int(member[2])] = value
        else:
            inner = lists.setdefault(member[1], {}).setdefault(int(member[2]), {})
            if isinstance(inner, dict):
                inner[member[3]] = value
    return {**plain, **{name: [items[number] for number in sorted(items)] for name, items in lists.items()}}


def _ms(value: Any) -> int:
    if isinstance(value, Moment):
        return value.ms
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise KinesisError("InvalidParameterValue", f"{value[:100]} is not a timestamp.") from None
        return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e12 < value < 1e12:
        raise KinesisError("InvalidParameterValue", "A timestamp is expected.")
    return int(value * 1000)


def _period_ms(value: Any) -> int:
    text = str(value)
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not int(text) or int(text) % 60:
        raise KinesisError("InvalidParameterValue", "The parameter Period must be a multiple of 60.")
    return int(text) * 1000


def _stream_name(dimensions: Any) -> str | None:
    if not isinstance(dimensions, list) or len(dimensions) != 1 or not isinstance(dimensions[0], dict):
        return None
    name, value = dimensions[0].get("Name"), dimensions[0].get("Value")
    return value if name == "StreamName" and isinstance(value, str) else None


def _texts(value: Any) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _element(item: tuple[str, Any]) -> str:
    name, value = item
    if isinstance(value, Moment):
        value = datetime.fromtimestamp(value.ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"<{name}>{value}</{name}>"


def _xml(name: str, result: str) -> bytes:
    space = "http://monitoring.amazonaws.com/doc/2010-08-01/"
    return f'<{name}Response xmlns="{space}"><{name}Result>{result}</{name}Result></{name}Response>\n'.encode()
