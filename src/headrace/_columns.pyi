"""The compiled twin of `headrace.spark.columns`: record batches to Arrow columns and back."""

from collections.abc import Sequence

from headrace.client.kafka.aborted import AbortedTransactions
from headrace.record.batch import Buffer
from headrace.spark.columns.layout import Bytes, Columns, EncodedTarget, HeadersView, NumbersView, TextView

def survey(buf: Buffer) -> tuple[int, int]: ...

class Decoder:
    rows: int
    size: int
    first: int
    def __init__(self, first: int, end: int, with_headers: bool, max_rows: int, max_bytes: int) -> None: ...
    def feed(self, batches: Buffer, aborted: AbortedTransactions | None = None) -> None: ...
    def fill(self) -> bool: ...
    def take(self) -> Columns: ...

def choose_targets(
    rows: int,
    keys: TextView | None,
    partitions: NumbersView | None,
    topics: Bytes | None,
    firsts: Sequence[int],
    counts: Sequence[int],
    sticky: Sequence[int],
) -> Bytes: ...
def encode_rows(
    rows: int,
    targets: Bytes,
    target_count: int,
    keys: TextView | None,
    values: TextView,
    headers: HeadersView | None,
    times: NumbersView | None,
    now_ms: int,
    max_bytes: int,
) -> list[EncodedTarget]: ...
