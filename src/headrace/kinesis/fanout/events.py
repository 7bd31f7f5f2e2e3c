"""What a subscription sends, as messages of the event stream: one `Events` for each encoding.

First an `initial-response`, which has nothing in it but tells the client that the subscription stands. Then events with
records, or without any as a sign of life. The last event of a shard that was split or merged has the children and no
ContinuationSequenceNumber: that is how consumers know the end of a shard. An exception ends the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.kinesis.codec.bodies import encode
from headrace.kinesis.codec.encoding import Encoding
from headrace.kinesis.data.reading import child_shown, tail
from headrace.kinesis.fanout.eventstream import Frame

if TYPE_CHECKING:
    from headrace.broker.streams.shard import Shard
    from headrace.broker.streams.stream import Stream
    from headrace.kinesis.errors import KinesisError
    from headrace.kinesis.fanout.portions import Portion

EVENT_TYPE = "SubscribeToShardEvent"

_MAP = 0xA0  # of CBOR; with up to 23 members their number is in it


class Events:
    __slots__ = ("_content_type", "_encoding", "_frame", "initial")

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding
        self._content_type = encoding.content_type.decode()
        self._frame = self._event_frame(EVENT_TYPE)
        self.initial = self._event_frame("initial-response").message(encode({}, encoding))

    def _event_frame(self, event_type: str) -> Frame:
        return Frame([(":event-type", event_type), (":content-type", self._content_type), (":message-type", "event")])

    def records(self, portion: Portion, continuation: str, behind_ms: int) -> bytes:
        members = {"ContinuationSequenceNumber": continuation, "MillisBehindLatest": behind_ms}
        rest = tail(members, self._encoding)
        records = memoryview(portion.encoded)
        if self._encoding is Encoding.JSON:
            return self._frame.message(records[:-1], rest, b"}")
        return self._frame.message(bytes((_MAP | 1 + len(members),)), records[1:], rest)

    def nothing(self, continuation: str, behind_ms: int) -> bytes:
        return self._event({"ContinuationSequenceNumber": continuation, "MillisBehindLatest": behind_ms, "Records": []})

    def end(self, stream: Stream, shard: Shard) -> bytes:
        children = [child_shown(stream, child) for child in stream.children(shard)]
        return self._event({"ChildShards": children, "MillisBehindLatest": 0, "Records": []})

    def _event(self, members: dict[str, Any]) -> bytes:
        return self._frame.message(encode(members, self._encoding))

    def refusal(self, error: KinesisError) -> bytes:
        return self.exception(error.code, error.message or "")

    def exception(self, code: str, message: str) -> bytes:
        frame = Frame([(":exception-type", code), (":content-type", self._content_type), (":message-type", "exception")])
        return frame.message(encode({"message": message}, self._encoding))
