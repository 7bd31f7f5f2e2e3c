"""Why nothing was answered. The text is a sentence for people; `kind` is a word for programs and for the record of attempts."""

from __future__ import annotations


class OutboundError(Exception):
    """The root of everything below; never raised itself."""

    kind = "error"

    def __init__(self, reason: str, kind: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        if kind is not None:
            self.kind = kind


class Refused(OutboundError):
    """The address is none that may be connected to. Nothing has left this machine. It stays so until a name leads elsewhere or
    the operator allows it."""

    kind = "refused"


class Unreachable(OutboundError):
    """No answer that can be understood. `kind` is `resolve`, `connect`, `tls`, `closed` or `protocol`."""

    kind = "connect"


class TimedOut(OutboundError):
    """No answer in the time that there was for everything together."""

    kind = "timeout"
