"""tx.select, tx.commit and tx.rollback: what a channel publishes and settles waits until it says so.

As in RabbitMQ a commit is not atomic over several queues; it is answered when everything in it is durable. A queue that
refuses a message of it closes the channel.

Bound: `MAX_BYTES` of messages in all transactions of a connection together would be a third of a server's memory at most;
a transaction above it closes the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.amqp import publishing, settling
from headrace.amqp.methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk
from headrace.broker.queues.errors import precondition_failed, resource_error

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel, Handlers
    from headrace.amqp.settling import Verdict
    from headrace.amqp.unacked import Delivered
    from headrace.broker.queues.run import Run

MAX_BYTES = 256 * 1024 * 1024
_RUN_BYTES = 512  # what keeping a run costs beside its records


class Transaction:
    def __init__(self) -> None:
        self._bytes = 0
        self._runs: list[tuple[Run, bool]] = []
        self._settled: list[tuple[Verdict, list[Delivered]]] = []

    def publish(self, run: Run, mandatory: bool) -> None:
        self._bytes += len(run.records) + _RUN_BYTES
        if self._bytes > MAX_BYTES:
            raise resource_error(f"a transaction of more than {MAX_BYTES} bytes")
        self._runs.append((run, mandatory))

    def settle(self, verdict: Verdict, deliveries: list[Delivered]) -> None:
        if deliveries:
            self._settled.append((verdict, deliveries))

    def commit(self, channel: Channel) -> bool:
        """False when a queue refused something."""
        runs, settled = self._runs, self._settled
        self._bytes, self._runs, self._settled = 0, [], []
        whole = True
        for run, mandatory in runs:
            whole = not publishing.deliver(channel, run, mandatory).rejected and whole
        for verdict, deliveries in settled:
            settling.carry_out(verdict, deliveries)
        return whole

    def roll_back(self, channel: Channel) -> None:
        settled = self._settled
        self._bytes, self._runs, self._settled = 0, [], []
        channel.unacked.put_back(delivered for _, deliveries in settled for delivered in deliveries)


def _select(channel: Channel, method: TxSelect) -> None:
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(TxSelectOk())


def _of(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise precondition_failed("channel is not transactional")
    return channel.transaction


def _commit(channel: Channel, method: TxCommit) -> None:
    whole = _of(channel).commit(channel)

    def answer() -> None:
        if not whole:
            raise precondition_failed("partial tx completion")
        if channel.open:
            channel.send(TxCommitOk())

    channel.connection.parking.after_sync(channel.number, method.ids, answer)


def _rollback(channel: Channel, method: TxRollback) -> None:
    _of(channel).roll_back(channel)
    channel.send(TxRollbackOk())


HANDLERS: Handlers = {TxSelect: _select, TxCommit: _commit, TxRollback: _rollback}
