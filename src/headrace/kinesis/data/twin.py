"""Picks the implementation of the work on each record: the compiled `headrace._kinesis` where it was built, pure Python
otherwise. HEADRACE_PURE=1 in the environment asks for pure Python. Both have the same classes, and the same tests run over
both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("HEADRACE_PURE"):
    from headrace.kinesis.data import pure as twin
else:
    try:
        from headrace import _kinesis as twin
    except ImportError:
        from headrace.kinesis.data import pure as twin

COMPILED: bool = twin.__name__ == "headrace._kinesis"

JSON, CBOR, RPC = range(3)  # as in pure

Puts = twin.Puts
RecordList = twin.RecordList
scan = twin.scan
