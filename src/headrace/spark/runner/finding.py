"""From what was typed to a pipeline: a name of the gallery (`banking.balances`), a dotted module, or a file.

The gallery is listed by reading its files, not by importing them, so that it can be seen where there is no PySpark. A file's
functions may end up in Spark's Python workers, which could not import it: they are sent by value.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from headrace.spark import pipelines
from headrace.spark.pipelines.showing import Shown
from headrace.spark.runner.errors import RunnerError, UnknownPipeline
from headrace.spark.runner.settings import FILLED

FUNCTION, SHOWS = "pipeline", "SHOWS"
GALLERY = "headrace.spark.pipelines"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A pipeline of the gallery, as its file describes it."""

    name: str
    summary: str
    settings: dict[str, str]  # name and default, as written
    path: Path


@dataclass(frozen=True, slots=True)
class Found:
    """A pipeline that can be run."""

    name: str
    function: Callable[..., Any]
    target: str  # what was typed
    summary: str = ""
    shows: tuple[Shown, ...] = ()

    @property
    def domain(self) -> str | None:
        """The folder of the gallery it belongs to, whose events it reads."""
        domain, dot, _ = self.name.partition(".")
        return domain if dot and domain in domains() else None


def gallery() -> list[Entry]:
    return sorted(_entries(), key=lambda entry: entry.name)


def domains() -> list[str]:
    """The folders of the gallery that have events."""
    return sorted(path.parent.name for path in _folder().glob("*/events.py"))


def find(target: str) -> Found:
    if target.endswith(".py") or os.sep in target:
        return _from_file(Path(target), target)
    known = [entry.name for entry in gallery()]
    if target in known:
        return _found(target, _imported(f"{GALLERY}.{target}"), target)
    if "." in target and _exists(target):
        return _found(target, _imported(target), target)
    raise UnknownPipeline(f"there is no pipeline '{target}'; {_hint(target, known)}")


def check_name(name: str) -> str:
    """A name is also a folder's and a part of a topic's key."""
    if not NAME.fullmatch(name):
        raise UnknownPipeline(f"'{name}' is no name for a pipeline: use letters, digits, dots, dashes and underscores")
    return name


def _folder() -> Path:
    return Path(pipelines.__path__[0])


def _entries() -> Iterator[Entry]:
    for path in _folder().glob("*/*.py"):
        tree = ast.parse(path.read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name == FUNCTION:
                pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                settings = {one.arg: ast.unparse(value) for one, value in pairs if value is not None and one.arg not in FILLED}
                yield Entry(f"{path.parent.name}.{path.stem}", _summary(tree), settings, path)


def _summary(tree: ast.Module) -> str:
    return (ast.get_docstring(tree) or "").partition("\n")[0].strip()


def _from_file(path: Path, target: str) -> Found:
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [one.name for one in path.parent.glob("*.py")], 1)
        raise UnknownPipeline(f"there is no file {path}" + (f"; did you mean {path.parent / near[0]}?" if near else ""))
    # What stands beside the file can be imported, here and in the workers that this process will start.
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    spec = importlib.util.spec_from_file_location(path.stem.replace("-", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise _broken(str(path), error) from error
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return _found(check_name(path.stem), module, target)


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def _imported(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except Exception as error:
        raise _broken(module, error) from error


def _broken(what: str, error: Exception) -> RunnerError:
    text = f"{what} can't be imported: {type(error).__name__}: {error}"
    if "SESSION_OR_CONTEXT_NOT_EXISTS" in str(error):
        text += " A UDF of a module takes its type as StringType(), not as 'string', which only a session can read"
    return RunnerError(text)


def _found(name: str, module: ModuleType, target: str) -> Found:
    function = _function(module, target)
    shows = getattr(module, SHOWS, ())
    if not isinstance(shows, list | tuple) or not all(isinstance(one, Shown) for one in shows):
        raise RunnerError(f"{SHOWS} of {target} must be a list of Shown; docs/pipelines/README.md shows the form")
    return Found(name, function, target, (module.__doc__ or "").strip().partition("\n")[0].strip(), tuple(shows))


def _function(module: ModuleType, target: str) -> Callable[..., Any]:
    function = getattr(module, FUNCTION, None)
    if not callable(function):
        raise UnknownPipeline(f"{target} has no function '{FUNCTION}(spark, …)'; docs/spark.md shows the form")
    return function  # type: ignore[no-any-return]


def _hint(target: str, known: list[str]) -> str:
    close = difflib.get_close_matches(target, known, 1) or [one for one in known if one.partition(".")[2] == target]
    if close:
        return f"did you mean '{close[0]}'?"
    return "'headrace pipeline list' shows those of the gallery; a file is given as path/to/file.py"
