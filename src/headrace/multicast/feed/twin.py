"""Picks the short way: the compiled `headrace._multicast` where it was built, `short_way` otherwise. HEADRACE_PURE=1 in the
environment asks for the latter. The same tests run over both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("HEADRACE_PURE"):
    from headrace.multicast.feed import short_way as twin
else:
    try:
        from headrace import _multicast as twin

        twin.make  # noqa: B018  a build from before the twin had its functions counts as none
    except (ImportError, AttributeError):
        from headrace.multicast.feed import short_way as twin

datagram_of_one = twin.datagram_of_one
expected_event = twin.expected_event
make = twin.make
