"""Records that are gone before they were read: an error, or a warning where `failOnDataLoss` is false."""

from __future__ import annotations

import logging

from headrace.client.kafka.errors import ClientError

log = logging.getLogger("headrace.spark")

_TOLERATE = "set the option failOnDataLoss to false to go on without them"


class DataLoss(ClientError):
    """Records the query has not read are no longer there: aged out, trimmed, or their topic was deleted."""


def report_loss(what: str, *, fail: bool) -> None:
    if fail:
        raise DataLoss(f"records may have been lost: {what}; {_TOLERATE}")
    log.warning("records may have been lost: %s; failOnDataLoss is false, so the query goes on", what)
