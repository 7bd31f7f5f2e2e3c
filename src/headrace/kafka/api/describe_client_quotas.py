"""DescribeClientQuotas, versions 0 to 1: the quotas of the users, clients and addresses that a filter picks (KIP-546).

A component of the filter names one, the default, or any of its type; `strict` leaves out entities with further parts.

v1 flexible
"""

from __future__ import annotations

from headrace.broker.quotas import CLIENT_ID, IP, USER, EntityFilter
from headrace.broker.topic_errors import InvalidRequest
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def handle(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    for component in request.components:
        if component.entity_type and component.entity_type not in (USER, CLIENT_ID, IP):
            return DescribeClientQuotasResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message=f"Unsupported entity type {component.entity_type}",
                entries=None,
            )
    try:
        wanted = _filter(request)
    except InvalidRequest as error:
        return DescribeClientQuotasResponse(error_code=code_of(error), error_message=text_of(error), entries=None)
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in call.broker.quotas.matching(wanted)
        ],
    )


def _filter(request: DescribeClientQuotasRequest) -> EntityFilter:
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for component in request.components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in exact or kind in any_name:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if component.match_type == EXACT:
            if match is None:
                raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = match
        elif component.match_type in (DEFAULT, SPECIFIED):
            name = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
            if match is not None:
                raise InvalidRequest(f"Request specified MATCH_TYPE_{name}, but also specified a match string.")
            if component.match_type == DEFAULT:
                exact[kind] = None
            else:
                any_name.add(kind)
        else:
            raise InvalidRequest(f"Unknown match type {component.match_type}")
    named = exact.keys() | any_name
    if IP in named and len(named) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    return EntityFilter(exact, frozenset(any_name), request.strict)
