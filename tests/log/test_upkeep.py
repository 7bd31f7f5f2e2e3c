"""What the log counts of its work in the background, for the metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.log.faulty_store import FaultyStore

from headrace.log.embedded import CleanerSettings
from headrace.log.embedded.archive.archive import ArchiveOptions
from headrace.record import Event, encode_batch


def test_compaction_is_counted_with_what_it_read_and_what_it_left(rigs: Callable[..., Any]) -> None:
    rig = rigs(cleaner=CleanerSettings(backoff_ms=1 << 40, cpu_share=1.0))
    rig.open()
    rig.create("t", cleanup_policy="compact", internal_segment_bytes="1000")
    for number in range(100):
        batch = encode_batch([Event(b"k%d" % (number % 5), bytes(40), timestamp_ms=rig.clock.now_ms())])
        rig.call(lambda batch=batch: rig.partition("t").append(bytearray(batch)))
    rig.settle()
    closed = sum(segment.size for segment in rig.partition("t").segments[:-1])
    assert (rig.log.upkeep.compactions, rig.log.upkeep.compaction_read_bytes) == (0, 0)
    rig.run(rig.log.compaction.run())
    done = rig.log.upkeep
    assert (done.compactions, done.compaction_read_bytes, done.compaction_given_up) == (1, closed, 0)
    assert done.compaction_written_bytes == sum(segment.size for segment in rig.partition("t").segments[:-1]) < closed


def test_what_went_to_the_archive_is_counted(rigs: Callable[..., Any]) -> None:
    rig = rigs()
    rig.options["archive"] = ArchiveOptions(FaultyStore(), in_thread=rig._at_once, interval_s=1e9)
    rig.open()
    rig.create("t", internal_segment_bytes="1000", remote_storage_enable="true")
    for number in range(20):
        rig.append(b"%d" % number + bytes(250), topic="t")
    rig.settle()
    rig.run(rig.log.archive.archiver.run())
    rig.settle()
    done, part = rig.log.upkeep, rig.partition("t").archived
    assert done.archived_segments == len(part.segments) > 0
    assert (done.archived_bytes, done.archive_failures) == (rig.partition("t").archived_bytes, 0)
