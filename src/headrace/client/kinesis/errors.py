"""What can go wrong between a client and a Kinesis endpoint, and what to tell the person who asked."""

from __future__ import annotations

# Worth another try with the same request after a pause, as AWS's own SDKs see it.
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
        "Throttling",
        "RequestLimitExceeded",
        "SlowDown",
    }
)


class KinesisError(Exception):
    """The root of what this client raises. Its text is one sentence for people, `code` AWS's name for it if it has one."""

    code: str | None = None


class BadAddress(KinesisError):
    """The URL is not one of an HTTP server."""


class Unreachable(KinesisError):
    """No connection, or it broke before the answer was there."""


class TimedOut(KinesisError):
    """No answer, or no success, in time; whether it was done is unknown."""


class NotKinesis(KinesisError):
    """Something answers there, but not Kinesis."""


class Refused(KinesisError):
    """The server answered that it won't. `code` is AWS's name for the error, `reason` the server's own words."""

    def __init__(self, what: str, status: int, code: str, reason: str) -> None:
        self.status = status
        self.code = code
        self.reason = reason
        super().__init__(f"{what}: {reason} ({code})")

    @property
    def passing(self) -> bool:
        """It may go well in a moment. LimitExceededException says one thing of two: too many calls, or too many streams,
        shards or consumers, which no waiting mends."""
        too_often = self.code == "LimitExceededException" and self.reason.startswith("Rate exceeded")
        return too_often or self.code in THROTTLED or self.status >= 500


class NotFound(Refused):
    """The stream, shard or consumer does not exist."""
