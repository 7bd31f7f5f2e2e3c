"""The tables in the documentation say what the code does. HEADRACE_WRITE_DOCS=1 writes them anew."""

import os
import re
from pathlib import Path

import pytest

from headrace.broker.setting_defs import SETTINGS
from headrace.kafka.api import SUPPORTED
from headrace.kafka.messages import MESSAGES
from headrace.kafka.not_supported import NOT_SUPPORTED
from headrace.kinesis.operations import NOT_SERVED, OPERATIONS

DOCS = Path(__file__).parent.parent / "docs"


def apis() -> str:
    rows = [f"| {key} | {MESSAGES[key].name} | {first}–{last} |" for key, (first, last) in sorted(SUPPORTED.items())]
    return "\n".join(["| Key | API | Versions |", "|---|---|---|", *rows])


def missing() -> str:
    rows = [f"| {key} | {MESSAGES[key].name} | {why} |" for key, why in sorted(NOT_SUPPORTED.items())]
    return "\n".join(["| Key | API | Why |", "|---|---|---|", *rows])


@pytest.mark.parametrize(("page", "name", "table"), [("kafka.md", "apis", apis), ("kafka.md", "missing", missing)])
def test_a_table_in_the_docs_is_what_the_code_says(page, name, table):
    path = DOCS / page
    text = path.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(\n<!-- /{name} -->)", re.DOTALL)
    assert pattern.search(text), f"{page} has no place for the table {name}"
    wanted = pattern.sub(lambda found: found[1] + table() + found[2], text)
    if os.environ.get("HEADRACE_WRITE_DOCS"):
        path.write_text(wanted)
    assert text == wanted, f"run HEADRACE_WRITE_DOCS=1 pytest {__file__}"


def test_every_api_that_kafka_advertises_is_answered_or_listed_as_missing():
    assert set(SUPPORTED) | set(NOT_SUPPORTED) == set(MESSAGES)
    assert not set(SUPPORTED) & set(NOT_SUPPORTED)


def test_every_operation_of_kinesis_is_named_as_there_or_as_missing():
    there, missing = (DOCS / "kinesis.md").read_text().split("## What AWS has and Headrace does not")
    for operation in OPERATIONS:
        assert re.search(rf"\b{operation}\b", missing if operation in NOT_SERVED else there), operation


def test_every_setting_of_kinesis_is_listed_with_its_default():
    for page in ("kinesis.md", "configuration.md"):
        rows = dict(re.findall(r"^\| `(kinesis\.[a-z.]+)` \| ([^|]+) \|", (DOCS / page).read_text(), re.MULTILINE))
        settings = {name: defined for name, defined in SETTINGS.items() if name.startswith("kinesis.")}
        assert rows.keys() == settings.keys(), page
        for name, default in rows.items():
            known = settings[name].default
            assert default == ("none" if known is None else str(known).lower()), f"{page}: {name}"


def test_links_between_the_pages_lead_somewhere():
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_is_in_the_list_of_the_readme():
    text = (DOCS.parent / "README.md").read_text()
    for page in DOCS.glob("*.md"):
        assert f"](docs/{page.name})" in text, f"README.md does not list docs/{page.name}"
