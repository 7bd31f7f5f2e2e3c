"""Where things are in the data folder. Names only; nothing here touches the disk.

LOCK                                             held while a server runs
checkpoint                                       how far every partition was safe in its own files
journal/0 … 2                                    the ring of journal files
topics/<name>.<topic id>/<partition>/
    <base offset, 20 digits>.log                 record batches, byte for byte as they cross the wire
    <base offset, 20 digits>.index               sparse index of that segment
    producers                                    state of producers and of their transactions
    <base offset, 20 digits>.<number>.log        a cleaned copy of one or more segments; .index beside it
    compacted                                    which cleaned copies hold
"""

from __future__ import annotations

from uuid import UUID

CHECKPOINT = "checkpoint"
JOURNAL = "journal"
TOPICS = "topics"
PRODUCERS = "producers"
COMPACTED = "compacted"

_NAME_KEPT = 200  # a topic's name may have 249 characters, a file's 255, and the id needs 33 of them


def topic_folder(name: str, topic_id: UUID) -> str:
    return f"{TOPICS}/{name[:_NAME_KEPT]}.{topic_id.hex}"


def topic_id_of(folder_name: str) -> UUID | None:
    """The topic a folder belongs to; None for a folder that is none of ours."""
    try:
        return UUID(hex=folder_name.rpartition(".")[2])
    except ValueError:
        return None


def segment_path(partition_folder: str, base_offset: int, number: int = 0) -> str:
    """`number` is that of a cleaned copy; 0 for a segment as it was written."""
    return f"{partition_folder}/{base_offset:020d}.{number}.log" if number else f"{partition_folder}/{base_offset:020d}.log"


def index_path(partition_folder: str, base_offset: int, number: int = 0) -> str:
    return index_of(segment_path(partition_folder, base_offset, number))


def index_of(path: str) -> str:
    """The index beside a segment."""
    return path.removesuffix(".log") + ".index"


def segment_base(file_name: str) -> int | None:
    stem, dot, suffix = file_name.partition(".")
    return int(stem) if dot and suffix == "log" and len(stem) == 20 and stem.isdigit() else None


def copy_of(file_name: str) -> tuple[int, int] | None:
    """Base offset and number of a cleaned copy."""
    stem, _, rest = file_name.partition(".")
    number, _, suffix = rest.partition(".")
    if suffix == "log" and len(stem) == 20 and stem.isdigit() and number.isdigit() and number.isascii():
        return int(stem), int(number)
    return None
