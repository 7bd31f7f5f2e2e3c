"""axe-core in a page: what it finds that a person with a screen reader, a keyboard or weak eyes would stumble over.

It comes once through npm into a cache folder; without npm or network those tests are skipped.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.interop.fetching import fetched

HERE = Path(__file__).with_name("axe_core")
SEVERE = ("serious", "critical")
_RUN = """only => axe.run(document, {resultTypes: ["violations"], ...(only ? {runOnly: {type: "rule", values: [only]}} : {})})
    .then(found => found.violations.map(one => ({
        rule: one.id, impact: one.impact, help: one.help,
        where: one.nodes.slice(0, 4).map(node => node.target.join(" ") + " | " + node.html.slice(0, 200)
            + " | " + (node.any[0]?.message ?? "")),
    })))"""


def script() -> str:
    lock = HERE / "package-lock.json"
    folder = f"axe-core-{hashlib.sha256(lock.read_bytes()).hexdigest()[:12]}"
    return (fetched(folder, [HERE / "package.json", lock], npm, "axe-core") / "node_modules/axe-core/axe.min.js").read_text()


def npm(into: Path) -> list[str]:
    if shutil.which("npm") is None:
        pytest.skip("needs npm to fetch axe-core")
    return ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]


def severe(page: Any, source: str, only: str | None = None) -> list[str]:
    """One line for each; `only` is the rule that is looked at, all of them without."""
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(source)
    found = page.evaluate(_RUN, only)
    return [f"{one['rule']}: {one['help']}: {'; '.join(one['where'])}" for one in found if one["impact"] in SEVERE]
