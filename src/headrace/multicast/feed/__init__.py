"""A feed: events as UDP datagrams that nobody acknowledges. docs/multicast-format.md has the format.

    datagrams    a datagram to bytes and back
    packing      events into datagrams, as full as they may be
    ordering     one stream as it comes in: duplicates dropped, disorder repaired, gaps found
    reception    whatever a socket receives, to the stream that it belongs to
    counts       what a receiver has seen
    pace         how fast datagrams may leave
    sockets      sockets that send to a group, and sockets that are members of one

Sans-IO but for `sockets`. Imports `record` alone; imported by the front end and by the client.
"""
