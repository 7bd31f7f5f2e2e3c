"""The operations that carry records: PutRecord, PutRecords, GetShardIterator and GetRecords.

    writing    PutRecord and PutRecords, from the body to the answer
    storing    their way into the log: which shard, one batch for each, what to do when a shard has just been closed
    iterators  GetShardIterator;  `positions` finds the offset,  `tokens` makes and checks what callers hold in their hands
    reading    GetRecords;  `pages` reads a shard and encodes its records, for fan-out too
    limits     how much a shard takes and gives in a second, where the server is told to be as strict as AWS
    shared     what the operations of one broker have in common
    pure, twin the work on each record: in Python, and which of it or the compiled `headrace._kinesis` is used

Imports the rest of `kinesis`, the broker, the log's port and `record`.
"""
