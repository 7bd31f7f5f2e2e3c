"""What a page shows, given to NiceGUI as it is.

NiceGUI watches over every member of every row that it is given, to notice when one changes. For the rows of a table and the
points of a chart, which are replaced as a whole, making the watchers takes longer than sending the rows.
"""

from __future__ import annotations

from typing import Any


def put(where: dict[str, Any], name: str, value: object) -> None:
    """Whoever does that calls `update()` of the element afterwards."""
    dict.__setitem__(where, name, value)
