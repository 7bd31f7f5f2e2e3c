"""Picks the implementation of the hot paths of AMQP: the compiled `headrace._amqp` where it was built, pure Python
otherwise.

HEADRACE_PURE=1 in the environment asks for pure Python. Both have the same functions, and the same tests run over both.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("HEADRACE_PURE"):
    from headrace.record.amqp import pure as twin
else:
    try:
        from headrace import _amqp as twin

        twin.merge_records  # noqa: B018  a build from before the twin had its functions counts as none
    except (ImportError, AttributeError):
        from headrace.record.amqp import pure as twin

COMPILED: bool = twin.__name__ == "headrace._amqp"

scan = twin.scan
deliver = twin.deliver
skip = twin.skip
run_batch = twin.run_batch
split_batches = twin.split_batches
batch_span = twin.batch_span
merge_records = twin.merge_records
