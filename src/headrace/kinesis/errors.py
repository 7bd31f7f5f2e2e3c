"""The errors of the Kinesis API: AWS's types with AWS's texts.

An operation raises `KinesisError`; the front door turns it into the answer. The functions here are the texts that AWS sends,
word for word where they are known, so that programs (and people) that match on them find what they look for.
"""

from __future__ import annotations

RESOURCE_NOT_FOUND = "ResourceNotFoundException"
RESOURCE_IN_USE = "ResourceInUseException"
LIMIT_EXCEEDED = "LimitExceededException"
INVALID_ARGUMENT = "InvalidArgumentException"
VALIDATION = "ValidationException"
SERIALIZATION = "SerializationException"
EXPIRED_NEXT_TOKEN = "ExpiredNextTokenException"
EXPIRED_ITERATOR = "ExpiredIteratorException"
THROUGHPUT_EXCEEDED = "ProvisionedThroughputExceededException"
UNKNOWN_OPERATION = "UnknownOperationException"
ACCESS_DENIED = "AccessDeniedException"
DRY_RUN = "DryRunOperationException"
INTERNAL_FAILURE = "InternalFailure"
SERVICE_UNAVAILABLE = "ServiceUnavailable"


class KinesisError(Exception):
    """What goes wrong, as AWS says it. No message at all is what AWS sends with some of them."""

    def __init__(self, code: str, message: str | None = None, status: int = 400) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.status = status

    def body(self, namespace: str = "") -> dict[str, str]:
        """What an answer says of it. AWS writes the message of one of them with a capital letter."""
        said = {"__type": namespace + self.code}
        if self.message is not None:
            said["Message" if self.code == SERIALIZATION else "message"] = self.message
        return said


def invalid_argument(message: str) -> KinesisError:
    return KinesisError(INVALID_ARGUMENT, message)


def resource_in_use(message: str) -> KinesisError:
    return KinesisError(RESOURCE_IN_USE, message)


def limit_exceeded(message: str) -> KinesisError:
    return KinesisError(LIMIT_EXCEEDED, message)


def validation(message: str) -> KinesisError:
    return KinesisError(VALIDATION, message)


def serialization(message: str | None = None) -> KinesisError:
    return KinesisError(SERIALIZATION, message)


def unknown_operation() -> KinesisError:
    return KinesisError(UNKNOWN_OPERATION)


def internal_failure() -> KinesisError:
    return KinesisError(INTERNAL_FAILURE, "The request processing has failed because of an unknown error.", 500)


def service_unavailable(message: str) -> KinesisError:
    """The SDKs try again by themselves after this one."""
    return KinesisError(SERVICE_UNAVAILABLE, message, 503)


def dry_run() -> KinesisError:
    return KinesisError(DRY_RUN, "Request would have succeeded, but the DryRun parameter is set.")


# --- streams


def stream_not_found(name: str, account: str) -> KinesisError:
    return KinesisError(RESOURCE_NOT_FOUND, f"Stream {name} under account {account} not found.")


# --- shards


def shard_not_found(shard_id: str, stream: str, account: str) -> KinesisError:
    return KinesisError(RESOURCE_NOT_FOUND, f"Could not find shard {shard_id} in stream {stream} under account {account}.")


def shard_does_not_exist(shard_id: str, stream: str, account: str) -> KinesisError:
    """How GetShardIterator says it."""
    return KinesisError(RESOURCE_NOT_FOUND, f"Shard {shard_id} in stream {stream} under account {account} does not exist")


# --- consumers


def consumer_not_found(consumer: str, account: str) -> KinesisError:
    return KinesisError(RESOURCE_NOT_FOUND, f"Consumer {consumer}, account {account} not found.")
