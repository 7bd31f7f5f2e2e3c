"""The package's face: every name it offers can be had, and is fetched only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headrace.client.kafka


def test_every_name_that_is_offered_can_be_had() -> None:
    assert sorted(headrace.client.kafka._HOME) == sorted(headrace.client.kafka.__all__)
    for name in headrace.client.kafka.__all__:
        assert getattr(headrace.client.kafka, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        _ = headrace.client.kafka.Consumer


def test_a_process_that_reads_does_not_load_what_writes() -> None:
    code = "import sys; from headrace.client.kafka import Cluster; print('headrace.client.kafka.producer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_the_data_source_is_found_without_loading_a_client() -> None:
    """Spark imports it in several short-lived processes for each query."""
    pytest.importorskip("pyspark")
    code = "import sys, pyspark_headrace; print([name for name in sys.modules if name.startswith('headrace.client')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
