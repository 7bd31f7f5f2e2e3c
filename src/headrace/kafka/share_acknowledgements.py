"""Acknowledgements as ShareFetch and ShareAcknowledge carry them: checked for sense before anybody acts on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol
from uuid import UUID

from headrace.broker.groups.errors import InvalidRequest
from headrace.broker.groups.share.runs import Acknowledgement, AckType

TopicPartition = tuple[UUID, int]
Given = dict[TopicPartition, list[Acknowledgement]]


class Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def sort_out(
    given: Iterable[tuple[TopicPartition, Sequence[Batch]]], *, renewing: bool, may_renew: bool
) -> tuple[Given, dict[TopicPartition, Exception]]:
    """What makes sense, and what is refused as a whole partition. RENEW needs a request that says so (KIP-1222)."""
    taken: Given = {}
    refused: dict[TopicPartition, Exception] = {}
    for place, batches in given:
        wrong = _mistake(batches, renewing=renewing, may_renew=may_renew)
        if wrong:
            refused[place] = InvalidRequest(wrong)
        elif batches:
            taken.setdefault(place, []).extend(
                Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types) for batch in batches
            )
    return taken, refused


def _mistake(batches: Sequence[Batch], *, renewing: bool, may_renew: bool) -> str:
    last = -1
    for batch in batches:
        types = batch.acknowledge_types
        if batch.first_offset > batch.last_offset or batch.first_offset < 0:
            return "The first offset of an acknowledgement is behind its last one."
        if batch.first_offset <= last:
            return "Acknowledgements overlap or are not in order."
        if len(types) != 1 and len(types) != batch.last_offset - batch.first_offset + 1:
            return "An acknowledgement needs one type for all of its offsets, or one for each."
        for kind in set(types):
            if not AckType.GAP <= kind <= AckType.RENEW:
                return f"There is no acknowledgement of type {kind}."
            if kind == AckType.RENEW and not renewing:
                return "A request that renews must say so."
            if kind == AckType.RENEW and not may_renew:
                return "Renew acknowledgement is disabled for the share group (share.renew.acknowledge.enable)."
        last = batch.last_offset
    return ""


def merged(*answers: Mapping[TopicPartition, Exception | None]) -> dict[TopicPartition, Exception | None]:
    return {place: answer for found in answers for place, answer in found.items()}
