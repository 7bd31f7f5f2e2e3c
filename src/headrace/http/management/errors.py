"""Refusals, and the answers they become: `{"error": …, "reason": …}` with a status, as RabbitMQ gives them."""

from __future__ import annotations

from headrace.broker.queues.errors import AmqpRefusal

_NAMES = {
    402: "INVALID_PATH",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    503: "COMMAND_INVALID",
    530: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}


class ApiError(Exception):
    def __init__(self, status: int, error: str, reason: object) -> None:
        super().__init__(str(reason))
        self.status = status
        self.body = {"error": error, "reason": reason}


def missing() -> ApiError:
    """What the path names is not there."""
    return ApiError(404, "Object Not Found", "Not Found")


def bad_request(reason: object) -> ApiError:
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """Logged in, but not allowed: RabbitMQ says 401 to that too."""
    return ApiError(401, "not_authorised", reason)


def from_refusal(refusal: AmqpRefusal) -> ApiError:
    if refusal.code == 404:
        return ApiError(404, "not_found", refusal.text)
    if refusal.code == 403:
        return not_authorised("Access refused.")
    if refusal.code == 541:
        return ApiError(500, "internal_error", refusal.text)
    return bad_request(refusal.text)


def amqp_text(refusal: AmqpRefusal) -> str:
    """A refusal as a client of AMQP would have heard it."""
    return f"{refusal.code} {_NAMES.get(refusal.code, 'ERROR')} - {refusal.text}"
