"""What can go wrong with a pipeline, in one sentence each."""

from __future__ import annotations


class RunnerError(Exception):
    """The text says what is wrong and what to do."""


class UnknownPipeline(RunnerError):
    """There is no such pipeline, or it has no function `pipeline`."""


class BadSetting(RunnerError):
    """A setting that the pipeline does not have, or a value of another type."""


class AlreadyRunning(RunnerError):
    """One run of a name at a time."""


class PipelineFailed(RunnerError):
    """A query, or the pipeline itself, ended with an error."""
