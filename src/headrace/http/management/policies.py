"""/api/policies and /api/operator-policies."""

from __future__ import annotations

from headrace.broker.vhosts.definitions_json import policy_entry
from headrace.broker.vhosts.policies import Policy
from headrace.broker.vhosts.policy_checks import InvalidPolicy, checked_policy
from headrace.http.management.call import ADMINISTRATOR, CREATED, MANAGEMENT, NO_CONTENT, POLICYMAKER, Answer, Call, Resource
from headrace.http.management.errors import bad_request, missing
from headrace.http.management.listing import listed


class _Sort:
    """Policies, or operator policies."""

    def __init__(self, *, operator: bool) -> None:
        self._operator = operator

    async def list(self, call: Call) -> object:
        found = [
            policy
            for vhost in sorted(call.vhosts(), key=lambda vhost: vhost.name)
            for policy in sorted(vhost.policies.all(), key=lambda policy: policy.name)
            if policy.operator == self._operator
        ]
        found.sort(key=lambda policy: policy.priority)
        return await listed(call.query, found, policy_entry, lambda policy: policy.name)

    def _named(self, call: Call) -> Policy:
        policy = call.vhost().policies.get(call["name"], operator=self._operator)
        if policy is None:
            raise missing()
        return policy

    async def get(self, call: Call) -> object:
        return policy_entry(self._named(call))

    async def put(self, call: Call) -> Answer:
        vhost, body = call.vhost_to_write(), call.body()
        body.require("pattern", "definition")
        there = vhost.policies.get(call["name"], operator=self._operator)
        try:
            policy = checked_policy(
                call["name"],
                vhost.name,
                body.get("pattern"),
                body.get("definition"),
                body.get("priority", 0),
                body.get("apply-to", "all"),
                operator=self._operator,
            )
        except InvalidPolicy as error:
            raise bad_request(f"Validation failed\n\n{error}\n") from None
        vhost.set_policy(policy)
        await call.durable()
        return NO_CONTENT if there is not None else CREATED

    async def delete(self, call: Call) -> Answer:
        call.vhost().clear_policy(self._named(call))
        await call.durable()
        return NO_CONTENT


def _resources(path: str, sort: _Sort, tag: str) -> list[Resource]:
    """Lists are for everybody, each by its name for those who may change it."""
    return [
        Resource(path, {"GET": sort.list}, MANAGEMENT),
        Resource(f"{path}/{{vhost}}", {"GET": sort.list}, MANAGEMENT),
        Resource(
            f"{path}/{{vhost}}/{{name}}",
            {"GET": sort.get, "PUT": sort.put, "DELETE": sort.delete},
            tag,
        ),
    ]


RESOURCES = [
    *_resources("policies", _Sort(operator=False), POLICYMAKER),
    *_resources("operator-policies", _Sort(operator=True), ADMINISTRATOR),
]
