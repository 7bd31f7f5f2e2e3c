"""Which of the two implementations of AMQP's hot paths is used, and that neither has what the other lacks."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from types import ModuleType

from headrace.record.amqp import events, pure, twin

ASK = "import headrace.record.amqp.twin as t, headrace.record.amqp.pure as p; print(t.COMPILED, t.scan is p.scan)"


def ask(code: str, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "HEADRACE_PURE"}
    run = subprocess.run([sys.executable, "-c", code], env=kept | environment, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_the_environment_can_ask_for_pure_python() -> None:
    assert ask(ASK, HEADRACE_PURE="1") == "False True"


def test_the_compiled_one_is_taken_where_it_was_built(twins: tuple[ModuleType, ModuleType]) -> None:
    assert ask(ASK) == "True False"
    assert ask("import headrace._amqp; " + ASK) == "True False"


def test_without_the_compiled_one_everything_still_works() -> None:
    assert ask("import sys; sys.modules['headrace._amqp'] = None; " + ASK) == "False True"


def test_both_have_the_same_functions_with_the_same_parameters(twins: tuple[ModuleType, ModuleType]) -> None:
    _, compiled = twins
    for name in pure.__all__:
        ours, theirs = (inspect.signature(getattr(module, name)) for module in (pure, compiled))
        assert list(ours.parameters) == list(theirs.parameters), name
        assert hasattr(twin, name)


def test_both_have_the_same_limits(twins: tuple[ModuleType, ModuleType]) -> None:
    names = ("PUBLISH", "ACK", "FRAME", "RUN_BYTES", "RUN_MESSAGES", "WAIT_BYTES", "WAIT_FRAMES", "LARGEST_BODY")
    assert twins[1].limits() == tuple(getattr(events, name) for name in names)
