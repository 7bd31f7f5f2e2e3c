"""Reads topics into Spark: which partitions, from which offset to which, in how many tasks.

    settings.py      what the options say
    subscription.py  which partitions are read: subscribe, subscribePattern, assign
    positions.py     where reading starts and ends, as the options say it
    offsets.py       offsets of many partitions and their form in the checkpoint
    watching.py      what the driver asks the brokers: partitions, their ends, offsets of positions
    limiting.py      how many records of each partition a micro-batch takes
    planning.py      offsets into pieces, one for each task
    losses.py        records that are gone before they were read
    stream.py        readStream
    batch.py         read

The driver decides offsets; the workers read the pieces (`headrace.spark.fetching`). The plan of a micro-batch is a function of
its two offsets in the checkpoint and of the options alone, so that a batch that is run again has the same tasks in the same
order with the same records. What writes exactly once relies on it.
"""
