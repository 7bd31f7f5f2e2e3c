"""AlterClientQuotas, versions 0 to 1: sets and removes quotas, or checks with `validate_only` whether they could be (KIP-546).

Each entity succeeds or fails by itself; one that is named twice is refused. What was altered holds at once, for
connections that are open too, and is durable when the answer is sent.

v1 flexible
"""

from __future__ import annotations

from headrace.broker.quotas import Alteration, Entity
from headrace.kafka.call import Call
from headrace.kafka.codec.errors import ErrorCode
from headrace.kafka.errors import code_of, text_of
from headrace.kafka.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    ResponseEntryData,
)


async def handle(call: Call, request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    alterations = [
        Alteration(
            Entity.of({part.entity_type: part.entity_name for part in entry.entity}),
            tuple((operation.key, None if operation.remove else operation.value) for operation in entry.ops),
        )
        for entry in request.entries
    ]
    results = await call.broker.quotas.alter(alterations, validate_only=request.validate_only)
    return AlterClientQuotasResponse(
        entries=[
            ResponseEntryData(
                error_code=ErrorCode.NONE if error is None else code_of(error),
                error_message=None if error is None else text_of(error),
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
            )
            for entity, error in results.items()
        ]
    )
