"""What runs in a process that evaluates: reads frames from its standard input, writes an answer to each to its standard output.

When everything is loaded it writes four zeros. A frame is four bytes of length and MessagePack. Asked for are

    [expressions]                              null, or why they can't be compiled
    [expressions, topic, partition, records]   for each record null (dropped), true (as it is), a text (a fault), or the list of
                                               what is transformed: value, key and headers, as far as there are expressions

`expressions` is a list of four texts or nulls; a record is a list of offset, timestamp, key, value and headers, with null for
what no expression uses; the name of a header is bytes. Answers end early when they take more than `MAX_OUTCOME_BYTES`.

Before each record its number goes into the file that it was given, so that it is known which one the process did not survive:
so many seconds of its own time for one record, or `LIMIT_BYTES` of memory. Whoever started it is gone when there is nothing
more to read, and then it ends.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from typing import Any

import msgspec

from headrace.expressions.expressions import MAX_OUTCOME_BYTES, Expressions, Fault, InvalidExpression, Result, size_of
from headrace.expressions.here import Programs
from headrace.record import Record

LIMIT_BYTES = 512 * 1024 * 1024
LENGTH = Struct(">I")
PROGRESS = Struct(">I")


def main(progress_fd: int, limit_s: float) -> None:
    with suppress(ValueError, OSError):  # where the system has no such limit there is none
        resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the server ends first, and then this
    progress = mmap.mmap(progress_fd, PROGRESS.size)
    programs = Programs()
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    came, goes = os.fdopen(0, "rb"), os.fdopen(1, "wb")
    goes.write(LENGTH.pack(0))
    goes.flush()
    while len(length := came.read(LENGTH.size)) == LENGTH.size:
        asked: list[Any] = decode(came.read(LENGTH.unpack(length)[0]))
        answer = encode(_answer(asked, programs, progress, limit_s))
        _limit(0.0)
        goes.write(LENGTH.pack(len(answer)))
        goes.write(answer)
        goes.flush()


def _answer(asked: Sequence[Any], programs: Programs, progress: mmap.mmap, limit_s: float) -> object:
    expressions = Expressions(*asked[0])
    _limit(limit_s)
    try:
        program = programs.get(expressions)
    except InvalidExpression as error:
        return str(error)
    if len(asked) == 1:
        return None
    answers: list[object] = []
    size = 0
    _, topic, partition, rows = asked
    for number, (offset, timestamp_ms, key, value, headers) in enumerate(rows):
        PROGRESS.pack_into(progress, 0, number)
        _limit(limit_s)
        named = tuple((name.decode("utf-8", "surrogateescape"), content) for name, content in headers or ())
        try:
            result = program.apply(topic, partition, Record(offset, timestamp_ms, key, value, named))
        except MemoryError:
            sys.exit("no memory")
        except Exception as error:  # a mistake of ours, or of the library
            result = Fault(f"it can't be evaluated: {type(error).__name__}")
        answers.append(_said(result, expressions.parts))
        if expressions.parts and isinstance(result, Record):
            size += size_of(result)
            if size >= MAX_OUTCOME_BYTES:
                break
    return answers


def _said(result: Result, parts: Sequence[str]) -> object:
    if result is None:
        return None
    if isinstance(result, Fault):
        return result.reason.encode("utf-8", "replace").decode()
    if not parts:
        return True
    return [
        [(name.encode("utf-8", "surrogateescape"), content) for name, content in result.headers]
        if part == "headers"
        else getattr(result, part)
        for part in parts
    ]


def _limit(seconds: float) -> None:
    """So much of this process's time from now on; none: no limit. The signal ends the process."""
    signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
