"""What is answered instead of doing what was asked. `code` is a name for programs, the text a sentence for people."""

from __future__ import annotations


class RouteError(Exception):
    """The root of everything below; never raised itself."""

    code = "error"


class InvalidRoute(RouteError):
    """A definition, or a place to replay from, that makes no sense."""

    code = "invalid"


class UnknownRoute(RouteError):
    code = "unknown_route"


class RouteConflict(RouteError):
    """It makes sense, but not with what is there."""

    code = "conflict"


class TooManyRoutes(RouteError):
    code = "too_many_routes"


class RouteNotStored(RouteError):
    """The log does not take writes now."""

    code = "unavailable"
