"""The Kinesis front end: the API of Amazon Kinesis Data Streams, as the AWS SDKs speak it, on the broker's streams.

`listener` holds the port; `front_door` takes a request from its head to an operation; `service` is what operations work with
(`Call`, `RawCall`); `operations` is the table of all of them. `codec/` turns bodies into parameters and answers into bytes,
`parameters` and `validation` check them as AWS does, `signature` and `gate` say who may call. Operations that manage streams
are in `control/`, those that carry records in `data/`, the ones that push them in `fanout/`.

Imports the broker, the log's port, `record` and `web`; only the server imports this package.
"""
