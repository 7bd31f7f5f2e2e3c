"""The embedded engine: segments on this disk, a shared journal for group commit.

Read in this order: `layout` (what is in the folder), `segment` and `index`, `partition`, `journal` and `commit` (how a write
becomes durable), `checkpoint`, `recovery` and `opening` (how a start finds what was promised), `engine` (the whole).
`compaction` cleans compacted topics (then `compaction_round`, `_filter`, `_manifest`, `_transactions` and `offset_map`).
`producers`, `retention`, `table` and `lease` each add one thing; `files` and `loaded` bound what is kept open and in memory.
The format on disk is described in docs/storage-format.md.

May import `record`, `disk`, `clock` and the port; imported by `server` alone.
"""

from headrace.log.embedded.compaction import CleanerSettings
from headrace.log.embedded.engine import EmbeddedLog

__all__ = ["CleanerSettings", "EmbeddedLog"]
