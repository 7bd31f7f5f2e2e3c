"""What can go wrong between a client and a management API, and what to tell the person who asked."""

from __future__ import annotations


class ManagementError(Exception):
    """The root of what this client raises. Its text is one sentence for people, `code` the server's word for it if any."""

    code: str | None = None


class BadAddress(ManagementError):
    """The URL is not one of an HTTP server."""


class Unreachable(ManagementError):
    """No connection, or it broke before the answer was there."""


class TimedOut(ManagementError):
    """No answer in time; whether it was done is unknown."""


class NotManagement(ManagementError):
    """Something answers there, but not a management API."""


class LoginFailed(ManagementError):
    """The server does not take this user with this password."""

    code = "not_authorized"


class Unsupported(ManagementError):
    """A call that only Headrace has, made to another server."""


class NotFound(ManagementError):
    """What was named does not exist. `plain`: that is all that the server said."""

    code = "not_found"

    def __init__(self, text: str, *, plain: bool = False) -> None:
        self.plain = plain
        super().__init__(text)


class Refused(ManagementError):
    """The server answered that it won't; the text is its reason."""

    def __init__(self, what: str, status: int, code: str | None, reason: str) -> None:
        self.status = status
        self.code = code
        self.reason = reason
        super().__init__(f"{what}: {reason}")
