"""Refusals with the code that AMQP gives them. The text has no name in front (`NOT_FOUND - …`): the front end adds it."""

from __future__ import annotations


class AmqpRefusal(Exception):
    """What was asked for can't be done; nothing has changed."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def access_refused(text: str) -> AmqpRefusal:
    return AmqpRefusal(403, text)


def not_found(text: str) -> AmqpRefusal:
    return AmqpRefusal(404, text)


def resource_locked(text: str) -> AmqpRefusal:
    return AmqpRefusal(405, text)


def precondition_failed(text: str) -> AmqpRefusal:
    return AmqpRefusal(406, text)


def frame_error(text: str) -> AmqpRefusal:
    return AmqpRefusal(501, text)


def syntax_error(text: str) -> AmqpRefusal:
    return AmqpRefusal(502, text)


def command_invalid(text: str) -> AmqpRefusal:
    return AmqpRefusal(503, text)


def channel_error(text: str) -> AmqpRefusal:
    return AmqpRefusal(504, text)


def unexpected_frame(text: str) -> AmqpRefusal:
    return AmqpRefusal(505, text)


def resource_error(text: str) -> AmqpRefusal:
    return AmqpRefusal(506, text)


def not_allowed(text: str) -> AmqpRefusal:
    return AmqpRefusal(530, text)


def not_implemented(text: str) -> AmqpRefusal:
    return AmqpRefusal(540, text)


def internal_error(text: str) -> AmqpRefusal:
    return AmqpRefusal(541, text)
