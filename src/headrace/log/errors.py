"""What a log can answer instead of doing what was asked. Each protocol maps these to its own codes in one table."""

from __future__ import annotations

from collections.abc import Sequence


class LogError(Exception):
    """The root of everything below; never raised itself."""


class UnknownTopic(LogError):
    """No such topic, or no such partition of it."""


class TopicExists(LogError):
    pass


class InvalidName(LogError):
    """A topic name that Kafka's rules forbid."""


class InvalidConfig(LogError):
    """A setting that is unknown, malformed or out of range; the text says which and why."""


class InvalidPartitions(LogError):
    """A partition count below one, above the limit, or lower than what the topic has."""


class CorruptBatch(LogError):
    """The bytes are not a record batch v2: lengths that lie, or a wrong CRC."""


class InvalidBatch(LogError):
    """A well-formed batch that this topic must not take (no key in a compacted topic, a control batch from a client…)."""


class RecordsRefused(LogError):
    """Some records of a batch must not be taken: `faults` has the place of each in the batch, and why. Nothing is written."""

    def __init__(self, faults: Sequence[tuple[int, str]]) -> None:
        super().__init__(f"{len(faults)} of the records are refused; of the first: {faults[0][1]}")
        self.faults = faults


class KeyNeeded(RecordsRefused, InvalidBatch):
    """A compacted topic takes only records with a key."""


class BatchTooLarge(LogError):
    """Larger than the topic's max.message.bytes."""


class PartitionSealed(LogError):
    """Whoever owns the partition has closed it for what clients write; the text says why, and where to write instead."""


class InvalidTimestamp(RecordsRefused):
    """Outside message.timestamp.before.max.ms / message.timestamp.after.max.ms."""


class OutOfOrderSequence(LogError):
    """An idempotent producer skipped a sequence number."""


class DuplicateSequence(LogError):
    """A batch from the past, too old for its first offset to be remembered."""


class InvalidProducerEpoch(LogError):
    """An epoch below the newest one seen: a zombie."""


class InvalidTransactionState(LogError):
    """A batch outside of the transaction that its producer has open in this partition."""


class CoordinatorFenced(LogError):
    """A newer transaction coordinator has spoken for this producer."""


class OffsetOutOfRange(LogError):
    """Below the start or above the end of the partition."""


class StorageError(LogError):
    """The disk did not do its part. Nothing was acknowledged; reads go on."""


class ReadOnly(StorageError):
    """An earlier fsync failed, so what the disk holds is unknown: no more writes until a restart recovers it."""


class DiskFull(StorageError):
    """No room. Service resumes by itself when there is."""


class Fenced(LogError):
    """A newer holder has this lease; whatever was asked for was not done."""


class RecoveryFailed(LogError):
    """The folder holds something that recovery must not guess about; the text says what and what to do."""


class FolderInUse(LogError):
    """Another server holds the data folder."""
