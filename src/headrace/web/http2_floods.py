"""Floods of frames that cost the peer little and us much: counted for each second, and the connection ends at the bound.

Known ones: resets of streams as soon as they are opened (CVE-2023-44487), PING and SETTINGS that want answers (CVE-2019-9512,
-9515), frames with nothing in them (CVE-2019-9518), heads that never end (CONTINUATION, CVE-2024-27316), heads that unpack to
many times their size (the decoder has a bound). Streams that make us reset them count like those the peer resets
(CVE-2025-8671).
"""

from __future__ import annotations

from headrace.web.http2_frames import Code, Http2Error
from headrace.web.limits import Limits


class FloodWatch:
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._second = -1.0
        self._resets = 0
        self._control = 0

    def reset(self, now: float) -> None:
        self._turn(now)
        self._resets += 1
        if self._resets > self._limits.resets:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "it resets too many streams")

    def control(self, now: float) -> None:
        self._turn(now)
        self._control += 1
        if self._control > self._limits.control_frames:
            raise Http2Error(Code.ENHANCE_YOUR_CALM, "too many frames that carry nothing")

    def _turn(self, now: float) -> None:
        if now != self._second:
            self._second, self._resets, self._control = now, 0, 0
