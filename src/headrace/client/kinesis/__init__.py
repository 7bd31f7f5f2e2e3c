"""A small blocking client of the Kinesis Data Streams API, as Headrace, its emulators and AWS serve it; no boto3 needed.

    kinesis = Kinesis("http://127.0.0.1:4567", Credentials("any", "thing"), region="us-east-1")
    kinesis.create_stream("orders", shards=2)
    kinesis.wait_until_active("orders")
    kinesis.put_records("orders", [Entry(b"one", "ada"), Entry(b"two", "bob")])
    for records in StreamReader(kinesis, "orders", Start.trim_horizon()).until_end():
        ...

`signing` has AWS's signature version 4, `transport` one request after another on one connection (AWS JSON 1.1), `values` what
the answers say, `api` a call for each operation that the command line needs, `reader` a whole stream read through resharding,
parents before children. Every error is a KinesisError whose text is one sentence. Imports nothing else of Headrace;
and nothing is imported here, because every command knows `errors` and few need the rest.
"""
