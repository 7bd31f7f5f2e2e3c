"""What can go wrong between programs that speak ZeroMQ. An address that is taken is an OSError, as everywhere."""

from __future__ import annotations


class ZeroMqError(Exception):
    """The root of everything below; never raised itself."""


class TimedOut(ZeroMqError, TimeoutError):
    """Nobody took it in time."""


class NoReply(TimedOut):
    """A request was not answered. It may have been handled, once or more."""


class RequestFailed(ZeroMqError):
    """The replier answered that its handler failed; the text is what it said."""


class Closed(ZeroMqError):
    """The channel or this part of it is closed."""
