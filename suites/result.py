"""What a suite comes back with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree


@dataclass(slots=True)
class Result:
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # name -> why
    skipped: list[str] = field(default_factory=list)


def from_junit(report: Path) -> Result:
    """One verdict for each test. A test that was run again has an entry for each run, and only the last run's entry tells
    of a failure: so a failure among them counts."""
    result = Result()
    verdicts: dict[str, tuple[str, str]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        verdict, why = "passed", ""
        for child in case:
            if child.tag in ("failure", "error"):
                verdict, why = "failed", (child.get("message") or "").split("\n")[0]
            elif child.tag == "skipped":
                verdict = "skipped"
        if verdicts.get(name, ("", ""))[0] != "failed":
            verdicts[name] = (verdict, why)
    for name, (verdict, why) in verdicts.items():
        if verdict == "passed":
            result.passed.append(name)
        elif verdict == "skipped":
            result.skipped.append(name)
        else:
            result.failed[name] = why
    return result
