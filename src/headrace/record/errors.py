"""What can be wrong with bytes that claim to be record batches or hot requests.

These are facts about bytes alone; the log and each protocol map them to their own answers.
"""

from __future__ import annotations


class BatchError(Exception):
    """The root of everything that is wrong with a batch; never raised itself."""


class CorruptBatch(BatchError):
    """The bytes are not a record batch v2: lengths that lie, a wrong CRC, records that do not parse."""


class InconsistentBatch(CorruptBatch):
    """Lengths, counts or offsets disagree, or there are no records: no accident of transport, but a producer's mistake. Kafka
    calls this INVALID_RECORD, not CORRUPT_MESSAGE (a wrong CRC), which would be tried again; whoever does not care catches
    `CorruptBatch`."""


class UnsupportedMagic(BatchError):
    """A message set of magic 0 or 1, which Kafka 4 no longer takes either (KIP-724)."""


class UnknownCompression(BatchError):
    """A compression code that nobody has defined, or one whose library is not installed."""


class BatchTooBig(BatchError):
    """Decompressing the batch would take more memory than the caller allows."""


class MalformedRequest(ValueError):
    """A request whose lengths or fields do not fit the bytes it came in."""
