"""Enhanced fan-out: SubscribeToShard, which pushes records to a registered consumer as soon as they can be read.

`subscribing` is the operation; `subscriptions` knows who is subscribed to what; `subscription` is one of them from its first
event to its last; `portions` reads and encodes records once for all who need them; `events` makes the events, and `eventstream`
frames them as AWS's event stream messages.

May import: what is in `headrace.kinesis` around it, broker, log and record. Imported by: the table of operations.
"""
