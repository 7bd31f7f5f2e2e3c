"""The tables in the documentation say what the code does. HEADRACE_WRITE_DOCS=1 writes them anew."""

import os
import re
from pathlib import Path

import pytest

from headrace.kafka.api import SUPPORTED
from headrace.kafka.messages import MESSAGES
from headrace.kafka.not_supported import NOT_SUPPORTED

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


def test_links_between_the_pages_lead_somewhere():
    for page in [*DOCS.glob("*.md"), DOCS.parent / "README.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
