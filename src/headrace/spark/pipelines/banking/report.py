"""A report as a file a person can read: Markdown, HTML or CSV, as the file's name says.

Rows come from Spark one partition at a time, so a report may be longer than memory. The same rows give the same bytes.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    rows: DataFrame  # in the order in which they are to be read


def write_report(path: str, title: str, sections: Sequence[Section]) -> None:
    """Written beside and then moved to its place."""
    write = _FORMATS.get(Path(path).suffix)
    if write is None:
        raise ValueError(f"{path}: a report's name ends in {', '.join(_FORMATS)}")
    draft = Path(f"{path}.new")
    with draft.open("w", encoding="utf-8", newline="") as file:
        write(file, title, sections)
    draft.replace(path)


def _markdown(file: IO[str], title: str, sections: Sequence[Section]) -> None:
    file.write(f"# {title}\n")
    for section in sections:
        names = section.rows.columns
        file.write(f"\n## {section.title}\n\n| {' | '.join(names)} |\n|{'---|' * len(names)}\n")
        for row in _rows(section):
            file.write("| " + " | ".join(word.replace("|", "\\|") for word in row) + " |\n")


def _html(file: IO[str], title: str, sections: Sequence[Section]) -> None:
    style = "body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #ddd}"
    file.write(f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>')
    file.write(f"<style>{style}</style></head>\n<body><h1>{escape(title)}</h1>\n")
    for section in sections:
        heads = "".join(f"<th>{escape(name)}</th>" for name in section.rows.columns)
        file.write(f"<h2>{escape(section.title)}</h2>\n<table><tr>{heads}</tr>\n")
        for row in _rows(section):
            file.write("<tr>" + "".join(f"<td>{escape(word)}</td>" for word in row) + "</tr>\n")
        file.write("</table>\n")
    file.write("</body></html>\n")


def _csv(file: IO[str], title: str, sections: Sequence[Section]) -> None:
    """One table after the other; the first column says which."""
    writer = csv.writer(file)
    for section in sections:
        writer.writerow(["section", *section.rows.columns])
        for row in _rows(section):
            writer.writerow([section.title, *row])


def _rows(section: Section) -> Iterator[list[str]]:
    """In words; times are UTC wherever the report is made."""
    in_words = [
        F.date_format(F.to_utc_timestamp(name, F.current_timezone()), "yyyy-MM-dd HH:mm:ss")
        if kind == "timestamp"
        else F.col(name)
        for name, kind in section.rows.dtypes
    ]
    for row in section.rows.select(*in_words).toLocalIterator():
        yield ["" if value is None else str(value) for value in row]


_FORMATS: dict[str, Callable[[IO[str], str, Sequence[Section]], None]] = {".md": _markdown, ".html": _html, ".csv": _csv}
