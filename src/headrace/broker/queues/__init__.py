"""Queues: a queue is a log plus what has been acknowledged of it.

`queue` is the queue that consumers and publishers see; it has one `lane` for each priority; a lane stands on a `backlog`
(batches in a topic of the queue's own, or in memory) and keeps acknowledgements as `ranges`, which `state` writes down.
`turns` does the work of one event loop turn for all queues together. No sockets and no files here: front ends bring the
consumers, the log port keeps what is durable. May import `log`, `record` and `clock`.
"""
