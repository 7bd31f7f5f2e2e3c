"""One Kinesis stream: its shards and consumers (`page`), where they lie among the hash keys and what became of which
(`lineage`), resharding (`acting`), its records (`records`)."""

from headrace.console.frame import Page
from headrace.console.pages.stream.page import stream

PAGES = [Page("/streams/{stream}", "Stream", stream)]
