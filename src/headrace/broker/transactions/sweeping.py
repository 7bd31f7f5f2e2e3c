"""What time does to transactions: those open for too long are aborted, and ids that nobody uses are forgotten.

Both as in Kafka: a look every `transaction.abort.timed.out.transaction.cleanup.interval.ms`, and another every
`transaction.remove.expired.transaction.cleanup.interval.ms`. To abort raises the epoch, so the producer that was too slow
learns of it with its next request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from headrace.broker.groups.countdown import Countdown
from headrace.broker.transactions.errors import TransactionError
from headrace.clock import Clock

if TYPE_CHECKING:
    from headrace.broker.transactions.coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)

_SLICE = 1000  # ids that are forgotten with one write


class ServerSettings(Protocol):
    def get_int(self, name: str) -> int: ...


class Sweep:
    def __init__(self, coordinator: TransactionCoordinator, clock: Clock, settings: ServerSettings) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._settings = settings
        self._abort = Countdown(clock, self.abort_overdue)
        self._expire = Countdown(clock, self.expire_unused)

    def start(self) -> None:
        self._abort.restart(self._settings.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"))
        self._expire.restart(self._settings.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"))

    def stop(self) -> None:
        self._abort.stop()
        self._expire.stop()

    def abort_overdue(self) -> None:
        now_ms = self._clock.now_ms()
        for transaction in self._coordinator.ongoing():
            if transaction.deadline_ms < now_ms:
                try:
                    self._coordinator.fence(transaction)
                    logger.info("transaction of %r aborted: open for too long", transaction.transactional_id)
                except TransactionError as error:  # tried again next time
                    logger.warning("transaction of %r can't be aborted: %s", transaction.transactional_id, error)
        self._abort.restart(self._settings.get_int("transaction.abort.timed.out.transaction.cleanup.interval.ms"))

    def expire_unused(self) -> None:
        last_use_ms = self._clock.now_ms() - self._settings.get_int("transactional.id.expiration.ms")
        unused = [one.transactional_id for one in self._coordinator.all() if not one.ongoing and one.updated_ms <= last_use_ms]
        try:
            while unused:
                self._coordinator.forget(unused[-_SLICE:])
                del unused[-_SLICE:]
        except TransactionError as error:
            logger.warning("unused transactional ids can't be removed: %s", error)
        self._expire.restart(self._settings.get_int("transaction.remove.expired.transaction.cleanup.interval.ms"))
