"""The Kafka front end.

`codec/` turns bytes into messages and back and knows no message; `messages/` is one file of schemas for each API;
`api/` is one file of behaviour for each API; `connection` is the socket shell. `codec` and `messages` are also what our own
client speaks with, so they import nothing of the broker.
"""
