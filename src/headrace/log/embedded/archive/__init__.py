"""The archive: closed segments that go to a folder or to an S3-compatible store, and are read from there as if they were local.

    store      the port to objects, and the two stores there are (through obstore)
    rows       one archived segment as a row of the table `__headrace_archive`, and its object's names
    catalog    those rows, and what is to become of them
    parts      what the archive holds of one partition
    side       the object beside each segment: its sparse index and its aborted transactions
    copying    a segment on its way to the store, checked batch by batch
    pace       how fast copies may go
    chunks     a bounded cache of pieces that were read
    local      which local segments are still needed
    reader     reading by offset and by time
    archiver   the work in the background: copy, then let go; delete what nobody needs
    archive    all of it together, as the engine uses it

What is archived is decided by rows, never by looking into the store. The order that makes every crash harmless: a row says that
a copy begins, and is durable; the objects are written under a name that was never used before; the row says that they are
complete, and is durable; only then may the local file go. An object without a complete row is removed by its row.
"""
