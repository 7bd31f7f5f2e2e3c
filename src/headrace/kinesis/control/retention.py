"""For how long a stream keeps its records: 24 to 8760 hours."""

from __future__ import annotations

from headrace.kinesis.service import Call


async def increase_retention_period(call: Call) -> None:
    await call.service.streams.increase_retention(call.stream(), call.given["RetentionPeriodHours"])


async def decrease_retention_period(call: Call) -> None:
    await call.service.streams.decrease_retention(call.stream(), call.given["RetentionPeriodHours"])
