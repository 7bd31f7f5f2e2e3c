"""Where the pictures of docs/tour.md go, and how one is taken."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.console.pictures import shrink

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH, HEIGHT = 1280, 800
OF_A_PIPELINE = "pipeline"


def wanted_folder() -> Path | None:
    """What HEADRACE_TOUR names."""
    wanted = os.environ.get("HEADRACE_TOUR")
    if not wanted:
        return None
    found = IMAGES if wanted == "docs" else Path(wanted)
    found.mkdir(parents=True, exist_ok=True)
    return found


def take(page: Any, folder: Path, name: str) -> None:
    picture = folder / f"tour-{name}.png"
    page.screenshot(path=picture)
    if folder == IMAGES:
        shrink(picture)
