"""Bytes to messages and back, without a socket and without knowing a single message.

    schema      `Struct`: a message declared once for all its versions; `decode` and `encode`
    fields      what a field of such a class may be: int32(), string(), array(...)
    decoding    writes the Python code that reads one version of one class
    encoding    writes the Python code that writes it
    source      what those two share
    wire        what their code calls: varints, tagged fields; and the codec's errors
    headers     request and response headers
    framing     cutting a byte stream into frames
    errors      Kafka's error codes

Imports nothing of Headrace outside this package. The front end, the client and the tests all build on it.
"""
