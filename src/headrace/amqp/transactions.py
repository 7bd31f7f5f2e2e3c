"""tx.select, tx.commit and tx.rollback: what a channel publishes and settles waits until it says so.

As in RabbitMQ a message that makes no sense is refused when it is published, and a commit is not atomic over several queues; it
is answered when everything in it is durable. A queue that refuses a message of it closes the channel.

Bound: messages in transactions count as unfinished ones, see `content`; whoever needs more than there is room for is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.amqp import publishing, settling
from headrace.amqp.content import UNFINISHED_BYTES
from headrace.amqp.methods import TxCommit, TxCommitOk, TxRollback, TxRollbackOk, TxSelect, TxSelectOk
from headrace.broker.queues.errors import AmqpRefusal, precondition_failed, resource_error

if TYPE_CHECKING:
    from headrace.amqp.channel import Channel, Handlers
    from headrace.amqp.listener import AmqpListener
    from headrace.amqp.settling import Verdict
    from headrace.amqp.unacked import Delivered
    from headrace.broker.queues.run import Run

_RUN_BYTES = 512  # what keeping a run costs beside its records


class Transaction:
    def __init__(self, listener: AmqpListener) -> None:
        self._listener = listener
        self._bytes = 0
        self._runs: list[tuple[Run, bool]] = []
        self._settled: list[tuple[Verdict, list[Delivered]]] = []

    def publish(self, channel: Channel, run: Run, mandatory: bool) -> None:
        channel.vhost.check_publish(run, channel.connection.user, channel.reply_name)
        size = len(run.records) + _RUN_BYTES
        if self._listener.unfinished_bytes + size > UNFINISHED_BYTES:
            raise resource_error("too much is waiting in transactions")
        self._listener.unfinished_bytes += size
        self._bytes += size
        self._runs.append((run, mandatory))

    def settle(self, verdict: Verdict, deliveries: list[Delivered]) -> None:
        if deliveries:
            self._settled.append((verdict, deliveries))

    def commit(self, channel: Channel) -> bool:
        """False when a queue refused something."""
        whole = True
        try:
            for run, mandatory in self._runs:
                if run.exchange and run.exchange not in channel.vhost.exchanges:  # it was there when they were published
                    if mandatory:
                        publishing.give_back(channel, run)
                else:
                    whole = not publishing.deliver(channel, run, mandatory).rejected and whole
        except AmqpRefusal:  # which closes the channel: nothing of it may get lost
            self.roll_back(channel)
            raise
        for verdict, deliveries in self._settled:
            settling.carry_out(verdict, deliveries)
        self._forget()
        return whole

    def roll_back(self, channel: Channel) -> None:
        channel.unacked.put_back(delivered for _, deliveries in self._settled for delivered in deliveries)
        self._forget()

    def _forget(self) -> None:
        self._listener.unfinished_bytes -= self._bytes
        self._bytes, self._runs, self._settled = 0, [], []


def _select(channel: Channel, method: TxSelect) -> None:
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.connection.listener)
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
