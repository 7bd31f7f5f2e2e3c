"""ListTransactions, versions 0 to 2: the transactional ids there are, filtered (KIP-664).

States that do not exist are given back in the answer and match nothing. A duration finds what is open for longer. The
pattern is one of RE2, as in Kafka, and must match the whole id; ids beyond ASCII match none.

1: by duration · 2: by a pattern (KIP-1152)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.broker.groups.consumer.automaton import Automaton
from headrace.broker.groups.consumer.pattern_syntax import InvalidPattern
from headrace.broker.transactions import State
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

_STATES = frozenset(State)
_SLICE = 500  # ids that are looked at before others get their turn


async def handle(call: Call, request: ListTransactionsRequest) -> ListTransactionsResponse:
    matches: Callable[[str], bool] | None = None
    if request.transactional_id_pattern:
        try:
            matches = Automaton(request.transactional_id_pattern).matches
        except InvalidPattern:
            return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = set(request.state_filters)
    producer_ids = set(request.producer_id_filters)
    now_ms = call.broker.clock.now_ms()
    answer = ListTransactionsResponse(unknown_state_filters=sorted(states - _STATES))
    for number, one in enumerate(tuple(call.broker.transactions.all()), 1):
        if number % _SLICE == 0:
            await asyncio.sleep(0)
        long_enough = request.duration_filter < 0 or (one.ongoing and now_ms - one.started_ms > request.duration_filter)
        if (
            long_enough
            and (not states or one.state in states)
            and (not producer_ids or one.producer_id in producer_ids)
            and (matches is None or matches(one.transactional_id))
        ):
            answer.transaction_states.append(
                TransactionState(
                    transactional_id=one.transactional_id, producer_id=one.producer_id, transaction_state=one.state
                )
            )
    return answer
