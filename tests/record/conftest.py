"""Both implementations of the hot paths, and kio as the oracle for what Kafka's messages look like."""

from __future__ import annotations

import dataclasses
import datetime
import io
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from kio.serial import entity_writer

from headrace.record import pure

try:
    from headrace import _speed as compiled
except ImportError:
    compiled = None


@pytest.fixture(scope="session", params=["pure", "compiled"])
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """Each of the two, one after the other."""
    if request.param == "pure":
        return pure
    if compiled is None:
        pytest.skip("headrace._speed is not built; `make speed` builds it")
    return compiled


@pytest.fixture(scope="session")
def twins() -> tuple[ModuleType, ModuleType]:
    """Both at once, to hold one against the other."""
    if compiled is None:
        pytest.skip("headrace._speed is not built; `make speed` builds it")
    return pure, compiled


class Oracle:
    """Builds messages with kio. Fields that a version does not have are left out."""

    def schema(self, api: str, version: int, kind: str) -> ModuleType:
        return import_module(f"kio.schema.{api}.v{version}.{kind}")

    def build(self, cls: type, **values: Any) -> Any:
        names = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in names})

    def body(self, message: Any) -> bytes:
        out = io.BytesIO()
        entity_writer(type(message))(out, message)
        return out.getvalue()

    def response(self, message: Any, correlation_id: int) -> bytes:
        """With its size and header."""
        header = type(message).__header_schema__
        whole = self.body(header(correlation_id=correlation_id)) + self.body(message)
        return len(whole).to_bytes(4, "big") + whole

    def ms(self, value: int) -> datetime.timedelta:
        return datetime.timedelta(milliseconds=value)


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    return Oracle()
