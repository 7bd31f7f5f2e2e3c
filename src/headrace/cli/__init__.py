"""The command line, one file for each noun.

`main` is the entry: it starts `serve` with nothing else imported, and hands everything else to `app`. `session` holds what
all commands share (server, output, timeout, exit codes), `managing` what those about queues share besides, `streaming` those
about Kinesis streams. The commands are clients of the Kafka protocol, of the management API or of the Kinesis API through
`headrace.client` and never touch the inside of a server; only `serve` starts one. Nobody imports this package.
"""
