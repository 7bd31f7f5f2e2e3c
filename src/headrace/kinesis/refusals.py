"""What the broker and the log refuse, in AWS's types: one table for the whole front end. The texts are AWS's already."""

from __future__ import annotations

from headrace.broker.streams import errors as streams
from headrace.kinesis import errors
from headrace.kinesis.errors import KinesisError
from headrace.log.errors import LogError

_CODES: dict[type[streams.StreamError], str] = {
    streams.Exists: errors.RESOURCE_IN_USE,
    streams.NotFound: errors.RESOURCE_NOT_FOUND,
    streams.Busy: errors.RESOURCE_IN_USE,
    streams.LimitExceeded: errors.LIMIT_EXCEEDED,
    streams.InvalidArgument: errors.INVALID_ARGUMENT,
    streams.OnDemand: errors.VALIDATION,
}


def as_kinesis_error(error: Exception) -> KinesisError | None:
    """None: not a refusal but a fault."""
    code = _CODES.get(type(error))  # type: ignore[arg-type]
    if code is not None:
        return KinesisError(code, str(error))
    if isinstance(error, streams.NotStored | LogError):
        return KinesisError(errors.INTERNAL_FAILURE, str(error), 500)
    return None
