"""Streams with shards, as Amazon Kinesis knows them, over topics with partitions: hash ranges, lineage, retention, consumers.

No socket and no wire format is in here. May import the broker's topics, the log and the record; front ends import it. The face
is `streams.Streams`; a server that has no streams does not load it before somebody asks for one.
"""

TABLE = "__headrace_streams"
"""Where streams are kept; it is there as soon as there was one."""
