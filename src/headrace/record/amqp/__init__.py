"""AMQP 0-9-1 messages as records: field tables, properties, and the hot paths between frames and record batches.

`tables` and `properties` are the encodings of the wire; `message` is one message as one record. `twin` has the hot
functions, compiled where there was a compiler: the bytes of a connection to `events` and runs of records, and records to
frames. `mapping` says what becomes of properties and headers where Kafka clients read and write the same records. Imports
nothing of Headrace but `record`; everyone may import it. The package itself exports nothing, so that a user of one module
loads no other.
"""
