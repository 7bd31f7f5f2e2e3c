"""Writes rows to topics: `df.writeStream.format("headrace")` and `df.write.format("headrace")`.

settings      what the options say
schema        which columns there must be, checked on the driver
producing     rows of a task to encoded records of partitions, and to the brokers
work          which piece of which query a task does, and under which name it is known to the brokers
markers       what was written, kept in the cluster in the transaction that wrote it
exactly_once  one transaction for each task and batch, skipped where its marker is there
at_least_once one idempotent producer for each Python worker
writer        the classes that Spark calls
"""
