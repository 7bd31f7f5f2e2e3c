"""Tools for tests, ours and those of projects that use Headrace: public API.

`server` runs a real Headrace in a process of its own and crashes it on demand; `plugin` wraps that in pytest fixtures
and is found by pytest by itself; the simulated clock and disk stand in for the real ones in tests of Headrace's inside.

May import: the standard library and pytest, and for the simulated parts `headrace.clock` and `headrace.disk`. A server
is only ever reached through its command line and its protocols. Imported by: tests, and pytest on every start wherever
Headrace is installed, so nothing here may be slow to import.
"""

from headrace.testing.server import HeadraceServer, ServerFailed, free_port, wait_until

__all__ = ["HeadraceServer", "ServerFailed", "free_port", "wait_until"]
